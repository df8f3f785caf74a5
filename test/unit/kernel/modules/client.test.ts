import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { ModulesClient } from "../../../../src/kernel/modules/client.ts";
import { ModuleError } from "../../../../src/kernel/modules/module-error.ts";
import { ProgramError } from "../../../../src/kernel/program.ts";
import { type ProgramAnswer, programs } from "../programs.ts";

const folder = mkdtempSync(join(tmpdir(), "modules-"));
after(() => rmSync(folder, { recursive: true }));

for (const path of ["sys/module/ip_vs", "proc", "modules/6.1.0"]) {
  mkdirSync(join(folder, path), { recursive: true });
}
writeFileSync(
  join(folder, "proc/modules"),
  "ip_vs_rr 16384 1 - Live 0x0\nip_vs 217088 3 ip_vs_rr\n",
);
writeFileSync(
  join(folder, "modules/6.1.0/modules.builtin"),
  "kernel/net/netfilter/nf_conntrack.ko\nkernel/net/802/8021q.ko\n",
);

function clientOf(
  answer?: ProgramAnswer,
  kernelRelease = "6.1.0",
): {
  readonly client: ModulesClient;
  readonly calls: ReturnType<typeof programs>["calls"];
} {
  const { run, calls } = programs(answer === undefined ? {} : { modprobe: answer });
  const client = new ModulesClient(
    { runProgram: run },
    {
      sysFolder: join(folder, "sys"),
      procFolder: join(folder, "proc"),
      modulesFolders: [join(folder, "modules"), join(folder, "other-modules")],
      kernelRelease,
    },
  );
  return { client, calls };
}

describe("kernel modules", () => {
  const known: readonly [name: string, where: string, expected: boolean | undefined][] = [
    ["ip_vs", "in /sys/module", true],
    ["ip-vs", "with a dash in place of the underscore", true],
    ["ip_vs_rr", "in /proc/modules", true],
    ["nf_conntrack", "built in", true],
    ["ip_vs_mh", "nowhere", false],
    ["conntrack", "only as the end of another name", false],
  ];
  for (const [name, where, expected] of known) {
    it(`are available or not: ${name}, ${where}`, () => {
      assert.equal(clientOf().client.isAvailable(name), expected);
    });
  }

  it("may be built in if the running kernel's list is missing", () => {
    const { client } = clientOf(undefined, "5.15.0");
    assert.equal(client.isAvailable("nf_conntrack"), undefined);
    assert.equal(client.isAvailable("ip_vs"), true);
  });

  it("are loadable if modprobe has a file for them, in any compression", () => {
    const files = ["ip_vs_mh.ko.xz", "ip-vs-sh.ko", "ip_vs_wrr.ko.zst: kernel/lib/ip_vs_lc.ko"];
    const lines = files.map((file) => `kernel/net/${file}${file.includes(":") ? "" : ":"}\n`);
    writeFileSync(join(folder, "modules/6.1.0/modules.dep"), lines.join(""));
    const { client } = clientOf();
    const names = ["ip_vs_mh", "ip_vs_sh", "ip_vs_wrr", "ip_vs_lc", "mh", "ip_vs"];
    assert.deepEqual(
      names.map((name) => client.isLoadable(name)),
      [true, true, true, false, false, false],
    );
    assert.equal(clientOf(undefined, "5.15.0").client.isLoadable("ip_vs_mh"), undefined);
  });

  it("have parameters, which are read and written by name", () => {
    const parameters = join(folder, "sys/module/ip_vs/parameters");
    mkdirSync(parameters, { recursive: true });
    writeFileSync(join(parameters, "conn_tab_bits"), "12\n");
    const { client } = clientOf();
    assert.equal(client.readParameter("ip-vs", "conn_tab_bits"), "12");
    client.writeParameter("ip_vs", "conn_tab_bits", "13");
    assert.equal(client.readParameter("ip_vs", "conn_tab_bits"), "13");
    assert.equal(client.readParameter("ip_vs", "other"), undefined);
    assert.throws(() => client.readParameter("ip_vs", "../../x"), /Not a kernel module name/);
    assert.throws(
      () => client.writeParameter("ip_vs", "other", "1"),
      /set module parameter .*other to 1/,
    );
  });

  it("are not loaded twice", async () => {
    const { client, calls } = clientOf();
    await client.load("ip_vs");
    assert.equal(calls.length, 0);
  });

  it("are loaded by modprobe, and their name is never an option", async () => {
    const { client, calls } = clientOf({});
    await client.load("ip_vs_mh");
    assert.deepEqual(
      calls.map((call) => [call.program, call.arguments]),
      [["modprobe", ["--", "ip_vs_mh"]]],
    );
    for (const name of ["--remove", "../x", "a b", "", "x".repeat(60)]) {
      await assert.rejects(client.load(name), /Not a kernel module name/);
    }
  });

  it("are searched in modprobe's folders of all distributions", async () => {
    mkdirSync(join(folder, "other-modules/6.2.0"), { recursive: true });
    const { client, calls } = clientOf({}, "6.2.0");
    await client.load("ip_vs_mh");
    assert.equal(calls.length, 1);
  });

  it("that are not in this container are not loaded, and the error says what to do", async () => {
    const { client, calls } = clientOf({}, "6.8.0");
    await assert.rejects(
      client.load("ip_vs_mh"),
      (error: unknown) =>
        error instanceof ModuleError &&
        /modules\/6\.8\.0 does not exist; mount the node's \/lib\/modules into the container, or run modprobe ip_vs_mh on the node/.test(
          error.message,
        ),
    );
    assert.equal(calls.length, 0);
  });

  const failures: readonly [
    name: string,
    answer: ProgramAnswer,
    release: string,
    message: RegExp,
  ][] = [
    [
      "the kernel has no such module",
      { exitCode: 1, errorOutput: "modprobe: FATAL: Module ip_vs_mh not found.\n" },
      "6.1.0",
      /^Cannot load kernel module ip_vs_mh: modprobe: FATAL.*not found\.; the running kernel 6\.1\.0 must have/,
    ],
    [
      "modules cannot be loaded without permission",
      { exitCode: 1, errorOutput: "could not insert 'ip_vs_mh': Operation not permitted\n" },
      "6.1.0",
      /grant CAP_SYS_MODULE/,
    ],
    [
      "modprobe is missing",
      new ProgramError("modprobe", "not-found", "it is not installed (not in PATH)"),
      "6.1.0",
      /Cannot run modprobe: it is not installed.*install kmod.*kernel 6\.1\.0/,
    ],
    ["modprobe prints nothing", { exitCode: 1 }, "6.1.0", /ip_vs_mh: modprobe failed; /],
  ];
  for (const [name, answer, release, message] of failures) {
    it(`cause an error with what to do if ${name}`, async () => {
      const { client } = clientOf(answer, release);
      await assert.rejects(
        client.load("ip_vs_mh"),
        (error: unknown) => error instanceof ModuleError && message.test(error.message),
      );
    });
  }
});
