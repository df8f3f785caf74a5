/** Tests that each mode removes the right leftovers of other modes, other backends and kube-proxy. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { IpFamily } from "../../../../src/base/ip.ts";
import type { Config } from "../../../../src/config/config.ts";
import {
  findBackends,
  leftoverRemoval,
  noEarlierRuns,
  removePortals,
  reportLeftoverChains,
} from "../../../../src/daemon/leftovers/remove-leftovers.ts";
import type { Mode } from "../../../../src/daemon/leftovers/rules-of-modes.ts";
import type { Kernel } from "../../../../src/kernel/kernel.ts";
import { planEmptyRules } from "../../../../src/plan/rules.ts";
import { setsFor } from "../../../../src/plan/sets.ts";
import type { RuleSet } from "../../../../src/state/rule.ts";
import { portalRules } from "../../../../src/userspace/portal-rules.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeIptables } from "../../../support/fake-kernel/fake-iptables.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { Operations } from "../../../support/fake-kernel/operations.ts";
import { iptablesModeRules, putRules } from "../../../support/iptables-mode.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { load } from "../../config/loading.ts";

const found: ReadonlyMap<IpFamily, readonly string[]> = new Map([
  ["IPv4", ["nat KUBE-SVC-ZNLZPHNJPSNFOWJC", "nat KUBE-SEP-6E37RDV4FITU7CIU"]],
]);
const ofIptablesMode = /^KUBE-(?:SVC|SEP|SVL|EXT|FW)-|^KUBE-(?:EXTERNAL|NODEPORTS|PROXY-CANARY)/;
/** kubelet's chains, and chains that both modes have. */
const ofKubelet = ["KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-MARK-DROP"];

let kernel: FakeKernel;
let unusedBackend: FakeIptables;
let log: RecordingLogger;
const unusedBackends = async () => [unusedBackend];

beforeEach(() => {
  kernel = new FakeKernel();
  unusedBackend = new FakeIptables(new Operations());
  log = new RecordingLogger();
});

async function write(iptables: FakeIptables, { chains, jumps }: RuleSet): Promise<void> {
  iptables.useSets(() => true);
  await iptables.apply("IPv4", [
    ...chains.map((chain) => ({ kind: "chain-write", chain }) as const),
    ...jumps.map((jump) => ({ kind: "jump-insert", jump }) as const),
  ]);
}

function leaveIptablesMode(iptables: FakeIptables): void {
  putRules(iptables, iptablesModeRules);
  iptables.choice = { ...iptables.choice, leftovers: found };
}

function configOf(mode: Mode, flags: Readonly<Record<string, string>> = {}): Config {
  return load({ "proxy-mode": mode, ...flags }).config;
}

function removal(
  config: Config,
  ran: readonly Mode[] = [],
  node: Kernel = Object.assign(kernel, { unusedBackends }),
): () => Promise<boolean> {
  const context = {
    clock: new FakeClock(),
    log,
    runs: { ...noEarlierRuns, earlier: new Set(ran) },
  };
  const remove = leftoverRemoval(node, config, context);
  return () => remove(new AbortController().signal);
}

function chainsIn(iptables: FakeIptables, pattern = /^KUBE-/): readonly string[] {
  return iptables
    .peek("IPv4")
    .map(({ name }) => name)
    .filter((name) => pattern.test(name));
}

function jumpsIn(iptables: FakeIptables, target: RegExp): number {
  const rules = iptables.peek("IPv4").filter(({ name }) => !name.startsWith("KUBE-"));
  return rules.flatMap((chain) => chain.rules).filter(({ text }) => target.test(text)).length;
}

describe("rules of iptables mode", () => {
  const { config: ipvs } = load({ "proxy-mode": "ipvs" });

  beforeEach(async () => {
    leaveIptablesMode(kernel.iptables);
    await write(kernel.iptables, { chains: planEmptyRules("IPv4", ipvs).chains, jumps: [] });
  });

  it("are reported in one line when IPVS mode starts, with a way to remove them", async () => {
    leaveIptablesMode(unusedBackend);
    reportLeftoverChains([kernel.iptables, unusedBackend], ipvs, { log, runs: noEarlierRuns });
    const [line] = log.lines;
    assert.deepEqual(
      [line?.level, line?.keys["chainCount"], line?.keys["backends"], line?.keys["ipFamilies"]],
      ["warn", 4, ["legacy", "legacy"], ["IPv4"]],
    );
    assert.match(
      String(line?.keys["advice"]),
      /removeLeftovers: true, or .* kube-ipvs --cleanup on this node$/,
    );
    reportLeftoverChains([kernel.iptables], ipvs, {
      log,
      runs: { ...noEarlierRuns, earlier: new Set(["iptables"]) },
    });
    reportLeftoverChains([new FakeKernel().iptables], ipvs, { log, runs: noEarlierRuns });
    assert.equal(log.lines.length, 1);
  });

  for (const [title, flags, ran] of [
    ["with removeLeftovers", { "kube-ipvs-remove-leftovers": "true" }, []],
    ["of an earlier kube-ipvs run", {}, ["iptables"]],
  ] as const) {
    it(`are removed in IPVS mode ${title}, except rules that both modes have and kubelet's`, async () => {
      assert.equal(await removal(configOf("ipvs", flags), ran)(), true);
      assert.deepEqual(chainsIn(kernel.iptables, ofIptablesMode), []);
      assert.equal(jumpsIn(kernel.iptables, /KUBE-PROXY-FIREWALL|KUBE-EXTERNAL|KUBE-NODEPORTS/), 0);
      assert.equal(jumpsIn(kernel.iptables, /"kubernetes service portals" -j KUBE-SERVICES/), 2);
      assert.equal(jumpsIn(kernel.iptables, /-j KUBE-FIREWALL/), 2);
      const stay = ["KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", "KUBE-PROXY-FIREWALL"];
      const left = chainsIn(kernel.iptables);
      assert.deepEqual(
        [...stay, ...ofKubelet].filter((name) => !left.includes(name)),
        [],
      );
    });
  }

  it("stay in IPVS mode otherwise, and in iptables mode", async () => {
    const before = chainsIn(kernel.iptables);
    assert.equal(await removal(configOf("ipvs"))(), true);
    assert.equal(await removal(configOf("iptables"), ["iptables"])(), true);
    assert.deepEqual(
      chainsIn(kernel.iptables, ofIptablesMode),
      before.filter((name) => ofIptablesMode.test(name)),
    );
  });

  it("are removed in userspace mode, with all other rules of kube-ipvs", async () => {
    kernel = new FakeKernel();
    leaveIptablesMode(kernel.iptables);
    await write(kernel.iptables, portalRules("IPv4", []));
    const left = (): readonly string[] =>
      chainsIn(kernel.iptables).filter((name) => !ofKubelet.includes(name));
    assert.equal(await removal(configOf("userspace"))(), true);
    const portals = portalRules("IPv4", []).chains.map(({ name }) => name);
    assert.deepEqual([...new Set(left())].sort(), ["KUBE-IPTABLES-HINT", ...portals].sort());
    assert.equal(jumpsIn(kernel.iptables, /-j KUBE-(?!FIREWALL|PORTALS|NODEPORT-)/), 0);
  });

  it("stay if a third-party rule refers to them", async () => {
    kernel.iptables.table("IPv4", "nat").append("OTHERS", "-j KUBE-SVL-ZNLZPHNJPSNFOWJC");
    const comment = '-m comment --comment "or -j KUBE-SVC-ZNLZPHNJPSNFOWJC" -j RETURN';
    kernel.iptables.table("IPv4", "nat").append("OTHERS", comment);
    await removal(configOf("ipvs"), ["iptables"])();
    assert.deepEqual(chainsIn(kernel.iptables, ofIptablesMode), ["KUBE-SVL-ZNLZPHNJPSNFOWJC"]);
    assert.ok(log.lines.some(({ event }) => event === "Kept leftover iptables rules"));
  });

  for (const flags of [
    { "kube-ipvs-ignore-running-kube-proxy": "true" },
    { "kube-ipvs-service-proxy-name": "trial" },
    { "kube-ipvs-observe-only": "true" },
  ]) {
    it(`stay with ${JSON.stringify(flags)}`, async () => {
      const before = chainsIn(kernel.iptables);
      const config = configOf("ipvs", { ...flags, "kube-ipvs-remove-leftovers": "true" });
      assert.equal(await removal(config, ["iptables"])(), true);
      assert.deepEqual(chainsIn(kernel.iptables), before);
    });
  }
});

describe("rules of kube-ipvs in the unused backend", () => {
  for (const mode of ["ipvs", "iptables", "userspace"] as const) {
    it(`are removed in ${mode} mode, and again after a failure`, async () => {
      const config = configOf(mode);
      await write(unusedBackend, planEmptyRules("IPv4", config));
      await write(unusedBackend, portalRules("IPv4", []));
      leaveIptablesMode(unusedBackend);
      unusedBackend.rejects = () => true;
      const remove = removal(config, ["iptables"]);
      assert.equal(await remove(), false);
      assert.deepEqual(
        log.lines.map(({ event, keys }) => [event, /^IPv4 .* more$/.test(String(keys["subject"]))]),
        [["Cannot remove leftover iptables rules", true]],
      );
      unusedBackend.rejects = () => false;
      assert.equal(await remove(), true);
      assert.deepEqual(
        chainsIn(unusedBackend).toSorted(),
        ["KUBE-IPTABLES-HINT", ...ofKubelet, "KUBE-KUBELET-CANARY"].toSorted(),
      );
    });
  }
});

describe("rules of userspace mode", () => {
  const clock = new FakeClock();

  beforeEach(() => write(kernel.iptables, portalRules("IPv4", [])));

  async function removeBeforeSync(config: Config, node: Kernel = kernel): Promise<void> {
    const backends = await findBackends(node, config, { clock, log });
    await removePortals(node, config, { backends, clock, log });
  }

  it("are removed before the first sync of another mode", async () => {
    await removeBeforeSync(configOf("ipvs"));
    assert.equal(chainsIn(kernel.iptables).length, 5, "they were not found at startup");
    kernel.iptables.choice = { ...kernel.iptables.choice, hasPortals: true };
    await removeBeforeSync(configOf("ipvs"));
    assert.deepEqual([chainsIn(kernel.iptables), jumpsIn(kernel.iptables, /KUBE-/)], [[], 0]);
  });

  it("are also removed from the unused backend before the first sync", async () => {
    await write(unusedBackend, portalRules("IPv4", []));
    unusedBackend.choice = { ...unusedBackend.choice, hasPortals: true };
    const node = Object.assign(kernel, { unusedBackends });
    await removeBeforeSync(configOf("ipvs"), node);
    assert.deepEqual([chainsIn(unusedBackend), jumpsIn(unusedBackend, /KUBE-/)], [[], 0]);
  });

  for (const [what, result] of [
    ["fail", () => Promise.reject(new Error("it did not finish within 30 s"))],
    ["hang", () => new Promise<never>(() => {})],
  ] as const) {
    it(`do not prevent the program from starting if the iptables programs ${what}, which is logged`, async () => {
      const node = Object.assign(kernel, { unusedBackends: result });
      const removal = removeBeforeSync(configOf("ipvs"), node);
      await clock.advance(10_000);
      await removal;
      assert.deepEqual(
        log.lines.map(({ level, event }) => [level, event]),
        [["warn", "Cannot look for leftovers in iptables"]],
      );
      assert.equal(clock.pendingTimers, 0);
    });
  }

  it("are removed after the first sync if that failed, which is logged with a way to remove them", async () => {
    kernel.iptables.choice = { ...kernel.iptables.choice, hasPortals: true };
    kernel.iptables.rejects = () => true;
    await removeBeforeSync(configOf("iptables"));
    assert.match(String(log.lines.at(-1)?.keys["advice"]), /kube-ipvs --cleanup on this node$/);
    const remove = removal(configOf("iptables"));
    assert.equal(await remove(), false);
    kernel.iptables.rejects = () => false;
    assert.equal(await remove(), true);
    assert.deepEqual(chainsIn(kernel.iptables), []);
  });
});

it("tables of kube-proxy's nftables mode are removed in every mode, and again after a failure", async () => {
  for (const mode of ["ipvs", "iptables", "userspace"] as const) {
    const present = new Set<IpFamily>(["IPv4", "IPv6"]);
    let failures = 1;
    const nftTables: NonNullable<Kernel["nftTables"]> = {
      has: async (family, name) => name === "kube-proxy" && present.has(family),
      remove: async (family) => {
        if (failures > 0) {
          failures -= 1;
          throw new Error("EBUSY");
        }
        present.delete(family);
      },
    };
    const remove = removal(configOf(mode), [], Object.assign(new FakeKernel(), { nftTables }));
    assert.deepEqual([await remove(), [...present]], [false, ["IPv4"]]);
    assert.deepEqual([await remove(), [...present]], [true, []]);
  }
});

it("userspace mode retries if sets of IPVS mode could not be read", async () => {
  const isSetList = ({ action }: { readonly action: string }): boolean => action === "list-sets";
  const mend = kernel.operations.failWhere(isSetList, new Error("EBUSY"));
  const remove = removal(configOf("userspace"), ["ipvs"]);
  assert.equal(await remove(), false);
  mend();
  assert.equal(await remove(), true);
});

describe("moving between iptables and nf_tables", () => {
  it("removes kube-ipvs's nf_tables tables if rules are written with iptables", async () => {
    const present = new Set(["IPv4 kube-ipvs", "IPv6 kube-ipvs", "IPv4 other"]);
    const nftTables: NonNullable<Kernel["nftTables"]> = {
      has: async (family, name) => present.has(`${family} ${name}`),
      remove: async (family, name) => void present.delete(`${family} ${name}`),
    };
    const remove = removal(configOf("ipvs"), [], Object.assign(kernel, { nftTables }));
    assert.equal(await remove(), true);
    assert.deepEqual([...present], ["IPv4 other"]);
    assert.deepEqual(
      log.lines.map(({ event }) => event),
      ["Removed leftover rules and sets from nf_tables"],
    );
  });

  it("removes rules and sets from iptables and ipset if rules are written with nf_tables", async () => {
    const [legacy, nft] = [unusedBackend, new FakeIptables(new Operations())];
    const { ipSets } = new FakeKernel();
    for (const set of setsFor("IPv4")) await ipSets.create(set);
    for (const one of [legacy, nft]) await write(one, planEmptyRules("IPv4", configOf("ipvs")));
    Object.assign(kernel.iptables, { backend: "nftables" });
    const both = async () => [legacy, nft];
    const node = Object.assign(kernel, { unusedBackends: both, otherSets: ipSets });
    const remove = removal(configOf("ipvs"), [], node);
    assert.equal(await remove(), true);
    assert.deepEqual([chainsIn(legacy), chainsIn(nft)], [[], []]);
    assert.deepEqual(await ipSets.listSets(), []);
  });
});
