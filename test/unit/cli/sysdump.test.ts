import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { apiVersion } from "../../../src/answer/answers.ts";
import type { Sysdump } from "../../../src/answer/sysdump.ts";
import { version } from "../../../src/base/version.ts";
import { packed } from "../../../src/sysdump/archive.ts";
import { type CommandRun, runCommand } from "../../support/run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "sysdump-"));
after(() => rmSync(folder, { recursive: true }));
const noSocket = "--kube-ipvs-operator-socket=/nonexistent/x.sock";

const index: Sysdump = {
  ...{ apiVersion, kind: "Sysdump", program: "1.0.0", time: "2026-01-02T03:04:05.678Z" },
  isRedacted: false,
  parts: [
    { name: "plan.json", bytes: 10, milliseconds: 1 },
    { name: "cut.json", bytes: 3, milliseconds: 1, note: "the first 3 of 9 bytes" },
    { name: "node.txt", bytes: 9, milliseconds: 1 },
    { name: "log.txt", bytes: 0, milliseconds: 2, note: "no daemon is running" },
  ],
};
const plan = { apiVersion, kind: "Plan", changes: [], conflicts: [] };
const archive = packed({
  index,
  parts: new Map([
    ["plan.json", JSON.stringify(plan)],
    ["cut.json", '{"a'],
    ["node.txt", "a\tb\n\u001b[2Jc\n"],
  ]),
});
const path = join(folder, "node.tar.gz");
writeFileSync(path, archive);

const state = packed({
  index: {
    ...index,
    program: version,
    parts: [{ name: "node-state.json", bytes: 2, milliseconds: 1 }],
  },
  parts: new Map([["node-state.json", "{}"]]),
});
const statePath = join(folder, "state.tar.gz");
writeFileSync(statePath, state);

const explanation = {
  ...{ mode: "ipvs", verdict: "balanced", summary: "Packets are balanced", conflicts: [] },
  ...{ sourceRanges: [], endpoints: [{ ready: true }], packets: [], differences: [] },
  connections: { templates: [], ipvs: [], conntrack: [], isTruncated: false },
};

interface Written extends CommandRun {
  readonly paths: readonly string[];
}

async function dump(args: readonly string[], error?: Error): Promise<Written> {
  const paths: string[] = [];
  const writeBytes = (to: string): void => {
    if (error !== undefined) throw error;
    paths.push(to);
  };
  const fakes = { sysdump: { sysdump: async () => ({ index, archive }) } };
  const outcome = await runCommand(["sysdump", noSocket, ...args], fakes, { writeBytes });
  return { ...outcome, paths };
}

describe("kube-ipvs sysdump", () => {
  it("names the file by the time, and lists incomplete parts", async () => {
    const { code, out, paths } = await dump([]);
    assert.deepEqual([code, paths], [0, ["kube-ipvs-sysdump-20260102T030405Z.tar.gz"]]);
    assert.match(out, /^ {2}log\.txt +0 +no daemon is running$/m);
    assert.match(out, /^Wrote kube-ipvs-sysdump-20260102T030405Z\.tar\.gz$/m);
  });

  it("prints nothing else on stdout if the archive goes there", async () => {
    const { code, out, err, paths } = await dump(["-f", "-"]);
    assert.deepEqual([code, out, paths], [0, "", ["-"]]);
    assert.match(err, /^ {2}plan\.json +10 /m);
  });

  it("fails if the file cannot be written", async () => {
    const { code, err } = await dump(
      ["-f", "/x/y"],
      new Error("ENOENT: no such file, open '/x/y'"),
    );
    assert.equal(code, 1);
    assert.match(
      err,
      /Cannot write \/x\/y: ENOENT: no such file; choose a different file with -f$/m,
    );
  });
});

describe("kube-ipvs show", () => {
  const show = (...args: readonly string[]) => runCommand(["show", ...args]);

  it("prints the parts, or one part as the command prints it", async () => {
    assert.match((await show(path)).out, /^Program +kube-ipvs 1\.0\.0$/m);
    assert.equal((await show(path, "-o", "name")).out, "plan.json\ncut.json\nnode.txt\nlog.txt\n");
    assert.equal((await show(path, "plan")).out, "No changes.\n");
    assert.equal((await show(path, "cut.json")).out, '{"a');
  });

  it("escapes terminal sequences in a part on a terminal, because the archive may come from anyone", async () => {
    const columns = (): number => 80;
    const shown = await runCommand(["show", path, "node"], {}, { columns });
    assert.equal(shown.out, "a\tb\n\\u001b[2Jc\n");
    assert.equal((await show(path, "node")).out, "a\tb\n\u001b[2Jc\n");
  });

  it("names the file, the part and both versions if it cannot read a part", async () => {
    const later = join(folder, "later.tar.gz");
    const names = ["status", "services", "drains", "history", "explain", "doctor", "plan"];
    const row = { bytes: 2, milliseconds: 1 };
    for (const [program, advice] of [
      [version, "It is damaged: write a new archive with kube-ipvs sysdump"],
      ["9.0.0", `because kube-ipvs 9.0.0 wrote it: use kube-ipvs 9.0.0 instead of ${version}, `],
    ] as const) {
      const parts = names.map((name) => ({ name: `${name}.json`, ...row }));
      const texts = names.map((name, at) => [`${name}.json`, at % 2 === 0 ? "{}" : "{"] as const);
      writeFileSync(later, packed({ index: { ...index, program, parts }, parts: new Map(texts) }));
      for (const name of names) {
        const { code, out, err } = await show(later, name);
        assert.deepEqual([code, out, err.trim().split("\n").length], [1, "", 1], err);
        assert.ok(err.includes(`show: Cannot read ${name}.json in ${later} (`), err);
        assert.ok(err.includes(advice), err);
      }
    }
  });

  it("fails with one line if there is no such part or archive", async () => {
    const text = join(folder, "text");
    writeFileSync(text, "text");
    for (const [args, reason] of [
      [[], /FILE is required/],
      [[path, "log"], /has no log \(no daemon is running\)$/],
      [[path, "x"], /has no x \(it has plan\.json, cut\.json, node\.txt\)$/],
      [[text], /Cannot read .*text: it is not a \.tar\.gz archive, or it is damaged$/],
      [[join(folder, "missing")], /Cannot read .*missing: ENOENT/],
    ] as const) {
      const { code, out, err } = await show(...args);
      assert.deepEqual([code, out, err.trim().split("\n").length], [1, "", 1], err);
      assert.match(err.trim(), reason);
    }
  });
});

describe("kube-ipvs explain --from-dump", () => {
  const web = { namespace: "shop", name: "web" };
  const item = { protocol: "TCP", address: "10.96.0.10", port: 80, losers: [], service: web };
  const explain = (...args: readonly string[]) =>
    runCommand(["explain", noSocket, ...args, "-o", "short"], {
      explain: {
        explainRecorded: async () =>
          [
            { ...explanation, ...item },
            { ...explanation, ...item, port: 443, service: undefined },
          ] as never,
      },
    });

  it("selects destinations", async () => {
    for (const [args, count] of [
      [[], 2],
      [["shop/web"], 1],
      [["10.96.0.10:443"], 1],
    ] as const) {
      const { code, out } = await explain("--from-dump", statePath, ...args);
      assert.deepEqual([code, out.trim().split("\n").length], [0, count], out);
    }
  });

  it("fails with one line if the archive does not contain the destinations", async () => {
    for (const [args, reason] of [
      [["--from-dump", path], /has no node-state \(it has plan\.json, cut\.json, node\.txt\)$/],
      [["--from-dump", statePath, "shop/other"], /has no Service shop\/other; kube-ipvs sysdump/],
      [["--from-dump", statePath, "10.96.0.10:80/udp"], /has no 10\.96\.0\.10:80\/udp; /],
      [["--from-dump", statePath, "--probe"], /--probe cannot be combined with --from-dump/],
    ] as const) {
      const { code, out, err } = await explain(...args);
      assert.deepEqual([code, out], [1, ""], err);
      assert.match(err.trim(), reason);
    }
  });
});
