/**
 * Tests rules that are written with iptables and with nf_tables on one node: switching between the two, and edits by
 * other software.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { nodeSetUp } from "../../golden/node-set-up.ts";
import {
  cleanUpLab,
  eventually,
  type LabDaemon,
  startLabDaemon,
} from "../../support/lab-daemon.ts";
import { shell, withNetworkNamespace } from "../../support/netns/network-namespace.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  service,
  servicePort,
} from "../../support/objects.ts";
import { Program } from "../../support/program.ts";

type Writer = "iptables" | "nftables";

const web = service({
  type: "NodePort",
  clusterIps: ["10.96.0.10"],
  ports: [servicePort({ port: 80, targetPort: 8080, nodePort: 30_080 })],
});
const endpointAddress = "10.244.2.11";
const slice = endpointSlice({ endpoints: [endpointAddress] });
const noticedMs = 60_000;
const nftFlags = ["--kube-ipvs-rules=nftables", "--conntrack-max-per-core=0"];

function inNamespace(body: () => Promise<void>): Promise<void> {
  return withNetworkNamespace("writers", nodeSetUp, body);
}

/** Functions that return each writer's rules as lines, and the names of its sets. */
const contents: Readonly<Record<Writer, () => readonly string[]>> = {
  iptables: () =>
    shell("iptables-save; ip6tables-save; ipset list -n")
      .split("\n")
      .filter((line) => /KUBE-/.test(line)),
  nftables: () =>
    shell("nft -s list ruleset")
      .split("\n")
      .filter((line) => /table ip6? kube-ipvs|chain (?:nat|filter)-|set KUBE-/.test(line)),
};

function start(writer: Writer): Promise<LabDaemon> {
  return startLabDaemon([web, slice], {
    "kube-ipvs-rules": writer,
    "kube-ipvs-rule-check-period": "1s",
  });
}

const moves: readonly (readonly [Writer, Writer])[] = [
  ["iptables", "nftables"],
  ["nftables", "iptables"],
];

for (const [before, after] of moves) {
  it(`moves from ${before} to ${after}: an open connection continues, and the old rules are removed`, async () => {
    await inNamespace(async () => {
      shell(`ip address add ${endpointAddress}/32 dev lo`);
      const server = createServer((socket) => socket.pipe(socket)).listen(8080, endpointAddress);
      await once(server, "listening");
      const first = await start(before);
      assert.deepEqual(first.errors, []);
      assert.ok(contents[before]().length > 20);
      assert.deepEqual(contents[after](), []);
      const open = await connected();
      assert.equal(await echo(open, "before"), "before");
      await first.stop();
      const second = await start(after);
      try {
        await eventually(contents[before], [], noticedMs);
        assert.ok(contents[after]().length > 20);
        assert.equal(await echo(open, "after"), "after");
        const other = await connected();
        assert.equal(await echo(other, "new"), "new");
        other.destroy();
        assert.deepEqual(second.errors, []);
      } finally {
        open.destroy();
        server.close();
        await second.stop();
      }
    });
  });

  it(`removes the rules of both with --cleanup if a move from ${before} to ${after} was interrupted`, async () => {
    await inNamespace(async () => {
      await (await start(before)).stop();
      const daemon = await start(after);
      await daemon.stop();
      assert.ok(contents[after]().length > 20);
      await cleanUpLab();
      assert.deepEqual([contents.iptables(), contents.nftables()], [[], []]);
    });
  });
}

/** Returns the handle of the chain's rule with this text. */
function handleOf(chain: string, text: RegExp): string {
  const line = shell(`nft -a list chain ip kube-ipvs ${chain}`)
    .split("\n")
    .find((one) => text.test(one));
  return /# handle (\d+)/.exec(line ?? "")?.[1] ?? "";
}

describe("rules written with nf_tables", () => {
  const table = "ip kube-ipvs";
  const edits: readonly (readonly [string, () => string])[] = [
    ["a flushed chain", () => `nft flush chain ${table} nat-KUBE-MARK-MASQ`],
    ["an added rule", () => `nft add rule ${table} nat-KUBE-SERVICES ip saddr 192.0.2.1 return`],
    [
      "a removed rule",
      () =>
        `nft delete rule ${table} filter-KUBE-IPVS-FILTER handle ${handleOf("filter-KUBE-IPVS-FILTER", /reject/)}`,
    ],
    [
      "a rule replaced under its comment",
      () =>
        `nft replace rule ${table} nat-KUBE-POSTROUTING handle ${handleOf("nat-KUBE-POSTROUTING", /requiring SNAT/)} accept comment '"kubernetes service traffic requiring SNAT"'`,
    ],
    [
      "a removed jump",
      () =>
        `nft delete rule ${table} nat-PREROUTING handle ${handleOf("nat-PREROUTING", /KUBE-SERVICES/)}`,
    ],
    [
      "a changed policy of a base chain",
      () => `nft chain ${table} filter-INPUT '{ policy drop ; }'`,
    ],
    ["a disabled table", () => `nft add table ${table} '{ flags dormant ; }'`],
    ["a flushed ruleset", () => "nft flush ruleset"],
  ];

  it("are written again after third-party edits", async () => {
    await inNamespace(async () => {
      const daemon = await start("nftables");
      const listed = (): readonly string[] =>
        shell("nft -s list ruleset")
          .split(/[\s,]+/)
          .toSorted();
      try {
        const written = listed();
        for (const [what, edit] of edits) {
          shell(edit());
          assert.notDeepEqual(listed(), written, what);
          await eventually(listed, written, noticedMs);
        }
        assert.deepEqual(daemon.errors, []);
      } finally {
        await daemon.stop();
      }
    });
  });

  const local = { nodeName: "node-1" };
  const sliceWith = (...addresses: readonly string[]): ApiObject =>
    endpointSlice({ endpoints: addresses.map((address) => endpoint(address, local)) });
  const [first, second] = [endpointAddress, "10.244.2.12"];
  /** This node is 192.168.10.11. */
  const balanced = (name: string, number: number, range: string): ApiObject =>
    service({
      ...{ name, type: "LoadBalancer", clusterIps: [`10.96.1.${number}`] },
      spec: { loadBalancerSourceRanges: [range] },
      status: { loadBalancer: { ingress: [{ ip: `203.0.113.${number}` }] } },
    });
  const [added, ranged] = [
    service({ name: "added", clusterIps: ["10.96.1.9"] }),
    balanced("ranged", 2, "192.168.10.0/24"),
  ];
  const excluding = balanced("excluding", 3, "192.0.2.0/24");
  /** Changes, and the chains to which they add rules. */
  const changes: readonly (readonly [string, (to: LabDaemon) => void, readonly string[]])[] = [
    ["an endpoint is added", (to) => to.apply(sliceWith(first, second)), []],
    ["an endpoint is removed", (to) => to.apply(sliceWith(first)), []],
    ["a Service is added", (to) => to.apply(added), []],
    ["a Service is removed", (to) => to.delete(added), []],
    ["a Service with source ranges is added", (to) => to.apply(ranged), []],
    ["a Service with source ranges is removed", (to) => to.delete(ranged), []],
    [
      "a Service is added whose source ranges exclude this node",
      (to) => to.apply(excluding),
      ["filter-KUBE-IPVS-OUT-FILTER"],
    ],
  ];

  it("do not change when endpoints and Services change, unless source ranges exclude the node", async () => {
    await inNamespace(async () => {
      const others = [sliceWith(first), balanced("other", 1, "192.168.10.0/24")];
      const daemon = await startLabDaemon([web, ...others], {
        "kube-ipvs-rules": "nftables",
        "bind-address": "192.168.10.11",
      });
      const monitor = spawn("nft", ["monitor"], { stdio: ["ignore", "pipe", "inherit"] });
      let printed = "";
      monitor.stdout.on("data", (chunk: Buffer) => {
        printed += chunk.toString();
      });
      const mark = (name: string): void => {
        shell(`nft add table ip ${name}; nft delete table ip ${name}`);
      };
      const printsAll = async (name: string): Promise<void> => {
        mark(name);
        const last = `delete table ip ${name}\n`;
        await eventually(() => printed.includes(last), true, noticedMs);
      };
      const isListening = (): boolean => {
        mark("first");
        return printed.includes("first");
      };
      try {
        await eventually(isListening, true, noticedMs);
        for (const [index, [what, change, chains]] of changes.entries()) {
          await printsAll(`before-${index}`);
          printed = "";
          change(daemon);
          await daemon.settled();
          await printsAll(`after-${index}`);
          const found = printed
            .split("\n")
            .filter((line) => line.includes(" kube-ipvs "))
            .map((line) => line.split(" "));
          assert.ok(found.some(([, object]) => object === "element") || chains.length > 0, what);
          const ruled = found
            .filter(([, object]) => object === "rule")
            .map(([, , , , name]) => name);
          assert.deepEqual([...new Set(ruled)], chains, `${what}:\n${printed}`);
          const isElement = found.every(([, object]) => object === "element");
          assert.equal(isElement, chains.length === 0, `${what}:\n${printed}`);
        }
        assert.deepEqual(daemon.errors, []);
      } finally {
        monitor.kill();
        await daemon.stop();
      }
    });
  });

  it("are readable: elements name their Service, and rules that block packets count them", async () => {
    await inNamespace(async () => {
      const daemon = await startLabDaemon([web, slice, ranged], {
        ...{ "kube-ipvs-rules": "nftables", "kube-ipvs-rule-check-period": "1s" },
        ...{ "kube-ipvs-verification-period": "1s", "bind-address": "192.168.10.11" },
      });
      const listed = (): string => shell("nft list table ip kube-ipvs");
      const portSet = `${table} KUBE-NODE-PORT-TCP`;
      const changes = (): Promise<readonly string[]> =>
        daemon.metrics("kube_ipvs_kernel_changes_total");
      /** Time of the last verification without a difference. */
      const cleanAtMs = async (): Promise<number> => {
        const [line = ""] = await daemon.metrics("kube_ipvs_last_clean_verification_timestamp");
        return 1_000 * Number(line.split(" ")[1]);
      };
      try {
        for (const element of [
          '10.96.0.10 . tcp . 80 comment "default/web"',
          '30080 comment "default/web"',
          'comment "203.0.113.2 tcp:80 192.168.10.0/24 default/ranged"',
        ])
          assert.ok(listed().includes(element), `${element}:\n${listed()}`);
        const counted = (): string =>
          /@KUBE-IPVS-IPS counter packets (\d+) bytes \d+ reject/.exec(listed())?.[1] ?? "absent";
        assert.equal(counted(), "0");
        const refused = connect({ host: "10.96.0.10", port: 81 });
        await once(refused, "error", { signal: AbortSignal.timeout(10_000) });
        assert.equal(counted(), "1");

        const before = await changes();
        shell(
          `nft 'delete element ${portSet} { 30080 }; add element ${portSet} { 30080 comment "mine" }'`,
        );
        const verifiedMs = Date.now() + 3_000;
        await eventually(async () => (await cleanAtMs()) > verifiedMs, true, noticedMs);
        assert.match(listed(), /30080 comment "mine"/);
        assert.deepEqual(await changes(), before);
        assert.deepEqual(daemon.errors, []);
      } finally {
        await daemon.stop();
      }
    });
  });

  it("are written even if the iptables programs hang", async () => {
    await inNamespace(async () => {
      const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-hanging-"));
      const hanging = "#!/bin/sh\nexec sleep 1000\n";
      writeFileSync(join(folder, "iptables-nft-save"), hanging, { mode: 0o755 });
      const program = new Program(
        ["--hostname-override=node-1", "--proxy-mode=ipvs", `--manifests=${folder}`, ...nftFlags],
        [],
        { env: { ...process.env, PATH: `${folder}:${process.env["PATH"] ?? ""}` } },
      );
      try {
        await program.prints(/"First sync completed"/, 45_000);
        assert.match(program.output, /"Cannot look for leftovers in iptables"/);
      } finally {
        program.kill("SIGTERM");
        await program.ends();
        rmSync(folder, { recursive: true });
      }
    });
  });

  it("are not written again by a restart", async () => {
    await inNamespace(async () => {
      await (await start("nftables")).stop();
      const handles = shell("nft -s -a list ruleset")
        .split(/[\s,]+/)
        .toSorted();
      await (await start("nftables")).stop();
      assert.deepEqual(
        shell("nft -s -a list ruleset")
          .split(/[\s,]+/)
          .toSorted(),
        handles,
      );
    });
  });
});

async function connected(): Promise<Socket> {
  const socket = connect({ host: "10.96.0.10", port: 80 });
  await once(socket, "connect", { signal: AbortSignal.timeout(10_000) });
  return socket;
}

async function echo(socket: Socket, text: string): Promise<string> {
  socket.write(text);
  const [data] = await once(socket, "data", { signal: AbortSignal.timeout(10_000) });
  return String(data);
}
