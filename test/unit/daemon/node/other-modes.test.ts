import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpFamily } from "../../../../src/base/ip.ts";
import type { Config } from "../../../../src/config/config.ts";
import { loadConfig } from "../../../../src/config/load-config.ts";
import {
  cleanUpOtherModes,
  reportLeftoverChains,
  tidyOtherModes,
} from "../../../../src/daemon/node/other-modes.ts";
import type { OtherProxy } from "../../../../src/daemon/node/other-proxy.ts";
import type { IptablesModeRules, Kernel } from "../../../../src/kernel/kernel.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { type RecordedLine, RecordingLogger } from "../../../support/recording-logger.ts";

function configOf(flags: Readonly<Record<string, string>> = {}): Config {
  const values = Object.entries({ "proxy-mode": "ipvs", ...flags }).map(
    ([name, value]) => [name, [value]] as const,
  );
  return loadConfig(new Map(values), { readFile: () => "", hostname: () => "node-1" }).config;
}

const chains = ["nat KUBE-SVC-A", "nat KUBE-SVC-B"];

/** Mode iptables left these chains in a backend; what was asked to be removed. */
function leftRules(
  backend: IptablesModeRules["backend"],
  asked: string[],
  failure?: Error,
): IptablesModeRules {
  return {
    backend,
    found: new Map<IpFamily, readonly string[]>([["IPv4", chains]]),
    async remove(family, emptied) {
      if (failure !== undefined) throw failure;
      asked.push(`${backend} ${family} ${emptied.has("nat KUBE-SERVICES") ? "emptied" : "kept"}`);
      return { removedCount: 2, kept: ["nat KUBE-SEP-C"] };
    },
  };
}

function nftTables(present: Set<IpFamily>): NonNullable<Kernel["nftTables"]> {
  return {
    has: async (family, name) => name === "kube-proxy" && present.has(family),
    remove: async (family) => {
      present.delete(family);
    },
  };
}

interface Node {
  readonly kernel: Kernel;
  readonly asked: string[];
  readonly tables: Set<IpFamily>;
}

/** Mode iptables left rules in both backends, mode nftables its table in both families. */
function leftoverNode(): Node {
  const asked: string[] = [];
  const tables = new Set<IpFamily>(["IPv4", "IPv6"]);
  const kernel: Kernel = Object.assign(new FakeKernel(), {
    iptablesMode: [leftRules("nft", asked), leftRules("legacy", asked)],
    nftTables: nftTables(tables),
    unusedBackend: new FakeKernel().iptables,
  });
  return { kernel, asked, tables };
}

describe("what kube-proxy's other modes left", () => {
  it("is named in one line when the program starts, with what removes it", () => {
    const log = new RecordingLogger();
    reportLeftoverChains(leftoverNode().kernel, configOf(), { log, ranIptables: false });
    assert.equal(log.lines.length, 1);
    const [{ level, keys }] = log.lines as [RecordedLine];
    assert.deepEqual([level, keys["chainCount"], keys["backends"]], ["warn", 4, ["nft", "legacy"]]);
    assert.deepEqual(keys["ipFamilies"], ["IPv4"]);
    assert.match(String(keys["advice"]), /removeLeftovers: true, or .* kube-ipvs --cleanup$/);
  });

  it("is not named where there is nothing", () => {
    const log = new RecordingLogger();
    const kernel: Kernel = new FakeKernel();
    reportLeftoverChains(kernel, configOf(), { log, ranIptables: false });
    assert.deepEqual(log.lines, []);
  });

  it("of mode nftables is removed at the start, and the rules of mode iptables stay", async () => {
    const { kernel, asked, tables } = leftoverNode();
    const log = new RecordingLogger();
    await tidyOtherModes(kernel, configOf(), { log, ranIptables: false });
    assert.deepEqual([[...tables], asked], [[], []]);
    assert.deepEqual(
      log.lines.map(({ event, keys }) => [event, keys["tables"]]),
      [["Removed tables of kube-proxy's nftables mode", ["ip kube-proxy", "ip6 kube-proxy"]]],
    );
  });

  it("of mode iptables is removed with removeLeftovers; chains of ours are emptied where they are not in use", async () => {
    const { kernel, asked } = leftoverNode();
    const log = new RecordingLogger();
    const config = configOf({ "kube-ipvs-remove-leftovers": "true" });
    await tidyOtherModes(kernel, config, { log, ranIptables: false });
    assert.deepEqual(asked, ["nft IPv4 kept", "legacy IPv4 emptied"]);
    assert.ok(log.lines.some(({ event }) => /^Kept chains of/.test(event)));
  });

  it("of our own mode iptables is removed without a setting, and not named", async () => {
    const { kernel, asked } = leftoverNode();
    const log = new RecordingLogger();
    reportLeftoverChains(kernel, configOf(), { log, ranIptables: true });
    assert.deepEqual(log.lines, []);
    await tidyOtherModes(kernel, configOf(), { log, ranIptables: true });
    assert.deepEqual(asked, ["nft IPv4 kept", "legacy IPv4 emptied"]);
  });

  for (const [mode, want] of [
    ["iptables", []],
    ["userspace", ["nft IPv4 emptied", "legacy IPv4 emptied"]],
  ] as const) {
    it(`is removed in mode ${mode} but for what that mode serves by`, async () => {
      const { kernel, asked, tables } = leftoverNode();
      const config = configOf({ "proxy-mode": mode, "kube-ipvs-remove-leftovers": "true" });
      await tidyOtherModes(kernel, config, { log: new RecordingLogger() });
      assert.deepEqual([[...tables], asked], [[], want]);
    });
  }

  const inUse: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ["a kube-proxy may run beside", { "kube-ipvs-ignore-running-kube-proxy": "true" }],
    ["a kube-proxy serves the other Services", { "kube-ipvs-service-proxy-name": "trial" }],
  ];
  for (const [name, flags] of inUse) {
    it(`is left alone and not named where ${name}`, async () => {
      const { kernel, asked, tables } = leftoverNode();
      const log = new RecordingLogger();
      const config = configOf({ ...flags, "kube-ipvs-remove-leftovers": "true" });
      reportLeftoverChains(kernel, config, { log, ranIptables: true });
      await tidyOtherModes(kernel, config, { log, ranIptables: true });
      const printed: string[] = [];
      const parts = { print: (line: string) => printed.push(line), proxy: undefined };
      assert.equal(await cleanUpOtherModes(kernel, config, parts), true);
      assert.deepEqual([asked, tables.size, log.lines], [[], 2, []]);
      assert.match(printed.join(), /^Kept .*: kube-proxy may be running$/);
    });
  }

  const proxies: readonly (readonly [OtherProxy, isKept: boolean])[] = [
    [{ kind: "process", pid: 812, command: "kube-proxy" }, true],
    [{ kind: "port", url: "http://127.0.0.1:10249", mode: "nftables" }, true],
    [{ kind: "port", url: "http://127.0.0.1:10249", mode: "ipvs" }, false],
  ];
  for (const [proxy, isKept] of proxies) {
    const who = proxy.kind === "port" ? `of mode ${proxy.mode}` : "of an unknown mode";
    it(`${isKept ? "stays" : "goes"} with --cleanup while a kube-proxy ${who} runs`, async () => {
      const { kernel, tables } = leftoverNode();
      const printed: string[] = [];
      const print = (line: string): number => printed.push(line);
      assert.equal(await cleanUpOtherModes(kernel, configOf(), { print, proxy }), true);
      assert.equal(tables.size, isKept ? 2 : 0);
      assert.match(printed.join(), isKept ? /^Kept .* kube-proxy is running: / : /^Removed/);
    });
  }

  it("that cannot be removed is named, and the rest is removed", async () => {
    const { asked, tables } = leftoverNode();
    const failing = leftRules("nft", asked, new Error("lock"));
    const kernel = Object.assign(new FakeKernel(), {
      iptablesMode: [failing, leftRules("legacy", asked)],
      nftTables: nftTables(tables),
    });
    const printed: string[] = [];
    const isClean = await cleanUpOtherModes(kernel, configOf(), {
      print: (line) => printed.push(line),
      proxy: undefined,
    });
    assert.equal(isClean, false);
    assert.deepEqual(printed, [
      "Removed     2 iptables chains and jumps of kube-proxy's mode iptables in legacy",
      "Kept IPv4 nat KUBE-SEP-C in legacy: a rule that is not ours still uses it",
      "Could not remove IPv4 rules of mode iptables in nft: lock",
      "Removed     1 nft table of kube-proxy's mode nftables: ip kube-proxy",
      "Removed     1 nft table of kube-proxy's mode nftables: ip6 kube-proxy",
    ]);
    assert.deepEqual(asked, ["legacy IPv4 emptied"]);
  });
});
