/**
 * Tests syncs in iptables mode: when everything is compared, which chains are written, and the state after a failure.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../../src/base/errno.ts";
import { hostPort, type IpFamily } from "../../../../src/base/ip.ts";
import { ofServices } from "../../../../src/plan/iptables/fixed-chains.ts";
import type { ServiceRules } from "../../../../src/plan/iptables/planner.ts";
import { type SharedRule, sharedChains } from "../../../../src/plan/iptables/shared-chains.ts";
import { TablesPlan } from "../../../../src/plan/iptables/tables-plan.ts";
import type { UdpDestination } from "../../../../src/plan/iptables/udp-destinations.ts";
import {
  type TablesGoal,
  TablesReconciler,
  type TablesReport,
} from "../../../../src/reconcile/iptables/tables-reconciler.ts";
import type { Chain, Rule } from "../../../../src/state/rule.ts";
import { toServerKey } from "../../../../src/state/virtual-server.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import type { Operation } from "../../../support/fake-kernel/operations.ts";
import { dnsFlow } from "../../../support/flows.ts";
import { iptablesOptions } from "../../../support/iptables-records.ts";
import { endpointRecord, ip, serviceRecord, sliceRecord } from "../../../support/records.ts";

const accept: Rule = { matches: [], target: { kind: "accept" } };
const drop: Rule = { matches: [], target: { kind: "drop" } };

function natChain(name: string, ...rules: readonly Rule[]): Chain {
  return { table: "nat", name, rules };
}

const services = natChain("KUBE-SERVICES", accept, drop);
const ofPort = natChain("KUBE-SVC-AAAAAAAAAAAAAAAA", accept);
const dns: UdpDestination = {
  key: toServerKey("UDP 10.96.0.10:53"),
  address: ip("10.96.0.10"),
  port: 53,
  answers: new Set(),
};

let kernel: FakeKernel;
let clock: FakeClock;
let reconciler: TablesReconciler;

beforeEach(() => {
  kernel = new FakeKernel();
  clock = new FakeClock();
  start();
});

function start({ isDryRun = false, families = ["IPv4"] as readonly IpFamily[] } = {}): void {
  reconciler = new TablesReconciler({ kernel, clock, isDryRun, families, sharedChains });
}

interface SyncInput {
  readonly wanted: readonly Chain[];
  readonly udp?: readonly UdpDestination[];
}

function kindsOf(rejected: TablesReport["rejected"]): readonly string[] {
  return rejected.map(({ change }) => change.kind);
}

function sync({ wanted, udp = [] }: SyncInput) {
  const goal: TablesGoal = {
    *ruleSetInSteps() {
      yield;
      return { chains: wanted, jumps: [], ofServices };
    },
    desired: { rebuild() {}, udpDestinations: () => udp },
  };
  return reconciler.sync(goal);
}

/** The chains that a sync writes and removes, and the families that it compares completely. */
async function writesOf(input: SyncInput): Promise<readonly string[]> {
  kernel.operations.clear();
  const { families, failures } = await sync(input);
  assert.deepEqual(failures, []);
  const full = families.filter(({ isFull }) => isFull).map(({ family }) => `full ${family}`);
  return [...full, ...kernel.operations.texts()];
}

function failWrites(family: IpFamily): () => void {
  const isWrite = ({ facility, subject, isRead }: Operation): boolean =>
    facility === "iptables" && isRead !== true && subject.startsWith(family);
  return kernel.operations.failWhere(isWrite, errno.EBUSY);
}

describe("a sync of the tables", () => {
  it("compares everything at startup, and writes the differences", async () => {
    const firewall = "chain-write filter KUBE-FIREWALL";
    assert.deepEqual(await writesOf({ wanted: [services, ofPort] }), [
      "full IPv4",
      `iptables apply IPv4: ${firewall}, chain-write nat KUBE-SERVICES, chain-write nat ${ofPort.name}`,
    ]);
    start();
    assert.deepEqual(await writesOf({ wanted: [services, ofPort] }), ["full IPv4"]);
    start();
    const other = natChain(ofPort.name, drop);
    assert.deepEqual(await writesOf({ wanted: [services, other] }), [
      "full IPv4",
      `iptables apply IPv4: chain-write nat ${ofPort.name}`,
    ]);
    start();
    assert.deepEqual(await writesOf({ wanted: [services] }), [
      "full IPv4",
      `iptables apply IPv4: chain-remove nat ${ofPort.name}`,
    ]);
  });

  it("has a complete cache after startup", async () => {
    await sync({ wanted: [services, ofPort] });
    start();
    const { families } = await sync({ wanted: [services, ofPort] });
    assert.equal(families[0]?.totalRules.get("nat"), 3);
    const newPort = natChain("KUBE-SVC-BBBBBBBBBBBBBBBB", accept);
    const { plan } = await sync({ wanted: [services, natChain("KUBE-NODEPORTS", drop), newPort] });
    assert.deepEqual(
      plan.changes.map(({ kind, reason }) => `${kind} ${reason}`),
      ["chain-write missing", "chain-write missing", "chain-remove unwanted"],
      "KUBE-SERVICES is as planned",
    );
  });

  it("later writes changed chains, and removes outdated ones", async () => {
    await sync({ wanted: [services] });
    assert.deepEqual(await writesOf({ wanted: [{ ...services }] }), []);
    assert.deepEqual(await writesOf({ wanted: [services, ofPort] }), [
      `iptables apply IPv4: chain-write nat ${ofPort.name}`,
    ]);
    assert.deepEqual(await writesOf({ wanted: [services] }), [
      `iptables apply IPv4: chain-remove nat ${ofPort.name}`,
    ]);
    assert.deepEqual(await writesOf({ wanted: [services] }), []);
    reconciler.invalidate();
    assert.deepEqual(await writesOf({ wanted: [services] }), ["full IPv4"]);
  });

  it("counts existing and written rules, and changes", async () => {
    const counts = ({ families: [family], changes }: TablesReport) => [
      [...(family?.writtenRules ?? [])],
      family?.totalRules.get("nat"),
      [...changes],
    ];
    const first = await sync({ wanted: [services, ofPort] });
    assert.deepEqual(counts(first), [
      [
        ["filter", 0],
        ["nat", 3],
      ],
      3,
      [["chain-write", 3]],
    ]);
    const longer = natChain(ofPort.name, accept, accept, accept);
    assert.deepEqual(counts(await sync({ wanted: [services, longer] })), [
      [["nat", 3]],
      5,
      [["chain-write", 1]],
    ]);
    assert.deepEqual(counts(await sync({ wanted: [services] })), [[], 2, [["chain-remove", 1]]]);
  });

  it("compares a family completely after a failed write, but not the other one", async () => {
    start({ families: ["IPv4", "IPv6"] });
    await sync({ wanted: [services] });
    const heal = failWrites("IPv6");
    const wanted = [services, ofPort];
    const report = await sync({ wanted });
    assert.deepEqual(report.failedRestores, ["IPv6"]);
    assert.deepEqual(
      report.failures.map(({ kind, subject }) => [kind, subject]),
      [["chain-write", `IPv6 nat ${ofPort.name}`]],
    );
    assert.deepEqual([...report.changes], [["chain-write", 1]], "those that were created");
    assert.deepEqual(
      report.families.map(({ hasWorked, writtenRules, totalRules }) => {
        return [hasWorked, writtenRules.get("nat"), totalRules.get("nat")];
      }),
      [
        [true, 1, 3],
        [false, undefined, undefined],
      ],
    );
    heal();
    assert.deepEqual(await writesOf({ wanted }), [
      "full IPv6",
      `iptables apply IPv6: chain-write nat ${ofPort.name}`,
    ]);
    assert.deepEqual(await writesOf({ wanted }), []);
  });

  it("writes nothing if the rules cannot be read, and compares them the next time", async () => {
    const isRead = ({ action }: Operation): boolean => action === "observe";
    kernel.operations.failWhere(isRead, errno.EPERM, 1);
    const { failures, failedRestores } = await sync({ wanted: [services] });
    assert.deepEqual([failures.map(({ kind }) => kind), failedRestores], [["observe"], []]);
    assert.deepEqual(kernel.operations.texts(), []);
    assert.equal((await writesOf({ wanted: [services] }))[0], "full IPv4");
  });

  it("plans everything each time in a dry run, and writes nothing", async () => {
    start({ isDryRun: true });
    kernel.conntrack.flows = [dnsFlow()];
    for (let time = 0; time < 2; time += 1) {
      const input = { wanted: [services], udp: [dns] };
      const { plan, families, failures } = await sync(input);
      assert.deepEqual(
        [plan.changes.length, families[0]?.isFull, failures, kernel.operations.texts()],
        [2, true, [], []],
      );
    }
  });
});

function jumpTo(chain: string): Rule {
  return { matches: [], target: { kind: "jump", chain } };
}

/** Rules of the nat chains that begin with this prefix, without the chain names. */
function rulesOf(prefix: string): readonly string[] {
  return kernel.iptables
    .peek("IPv4")
    .filter(({ table, name }) => table === "nat" && name.startsWith(prefix))
    .flatMap(({ name, rules }) => [name, ...rules.map(({ text }) => text)]);
}

function reject(isRejected: (chain: Chain) => boolean): void {
  kernel.iptables.rejects = (_family, change) =>
    change.kind === "chain-write" && isRejected(change.chain);
}

describe("a rejected rule", () => {
  const other = natChain("KUBE-SVC-BBBBBBBBBBBBBBBB", accept);
  const both = natChain("KUBE-SERVICES", jumpTo(ofPort.name), jumpTo(other.name));

  it("affects only its own Service, and is retried with back-off", async () => {
    reject(({ name }) => name === ofPort.name);
    const wanted = [both, ofPort, other];
    const { failures, rejections, failedRestores, rejected } = await sync({ wanted });
    assert.deepEqual([failures, failedRestores], [[], ["IPv4"]]);
    assert.deepEqual(kindsOf(rejected), ["chain-write"]);
    assert.deepEqual(rejections, [], "it is retried before it is reported");
    const withoutIt = ["KUBE-SERVICES", `-j ${other.name}`, other.name, "-j ACCEPT"];
    assert.deepEqual(rulesOf("KUBE-S"), withoutIt);
    assert.equal((await sync({ wanted })).rejections.length, 1);
    kernel.operations.clear();
    await sync({ wanted });
    assert.deepEqual(kernel.operations.texts(), [], "not before it is due");
    reject(() => false);
    await clock.advance(2_000);
    assert.ok((reconciler.nextRetryMs ?? 0) <= clock.monotonicMs());
    assert.deepEqual((await sync({ wanted })).rejections, []);
    assert.equal(reconciler.nextRetryMs, undefined);
    assert.deepEqual(rulesOf("KUBE-SERVICES"), [
      ...["KUBE-SERVICES", `-j ${ofPort.name}`, `-j ${other.name}`],
    ]);
  });

  it("is sent at once if its chain is planned again", async () => {
    reject(({ name, rules }) => name === ofPort.name && rules.includes(accept));
    for (let time = 0; time < 4; time += 1) await sync({ wanted: [both, ofPort, other] });
    const { rejections } = await sync({ wanted: [both, natChain(ofPort.name, drop), other] });
    assert.deepEqual(rulesOf(ofPort.name), [ofPort.name, "-j DROP"]);
    assert.deepEqual(rulesOf("KUBE-SERVICES").length, 3);
    assert.deepEqual(rejections, []);
  });

  it("of KUBE-SERVICES is not sent again before its retry is due", async () => {
    reject(({ rules }) => rules.includes(drop));
    for (let time = 0; time < 2; time += 1) await sync({ wanted: [services] });
    const { nextRetryMs } = reconciler;
    let reads = 0;
    const isRead = ({ action }: Operation): boolean => {
      if (action === "observe") reads += 1;
      return false;
    };
    kernel.operations.failWhere(isRead, errno.EPERM);
    const withOther = { ...services, rules: [...services.rules, jumpTo(other.name)] };
    assert.deepEqual(await writesOf({ wanted: [services] }), []);
    assert.deepEqual(await writesOf({ wanted: [withOther, other] }), [
      `iptables apply IPv4: chain-write nat ${other.name}`,
      "iptables apply IPv4: chain-write nat KUBE-SERVICES",
    ]);
    assert.deepEqual([reads, reconciler.nextRetryMs], [0, nextRetryMs]);
  });

  it("of a removed chain does not delay a new Service with this chain", async () => {
    await sync({ wanted: [both, ofPort, other] });
    const users = { table: "nat" as const, name: "USERS", rules: [jumpTo(ofPort.name)] };
    await kernel.iptables.apply("IPv4", [{ kind: "chain-write", chain: users }]);
    const onlyOther = natChain("KUBE-SERVICES", jumpTo(other.name));
    for (let time = 0; time < 3; time += 1) await sync({ wanted: [onlyOther, other] });
    const changed = natChain(ofPort.name, drop);
    await sync({ wanted: [both, changed, other] });
    assert.deepEqual(rulesOf(ofPort.name), [ofPort.name, "-j DROP"]);
  });

  it("of KUBE-SERVICES is omitted, and the rules of the other Services are written", async () => {
    reject(({ rules }) => rules.some(({ target }) => target.kind === "drop"));
    const many = Array.from({ length: 300 }, (_, index): Rule => {
      const cidr = `10.96.${index >> 8}.${index & 255}/32`;
      return { ...accept, matches: [{ kind: "destination", cidr, isNegated: false }] };
    });
    const rules = [...many.slice(0, 200), drop, ...many.slice(200)];
    const wanted = [{ ...services, rules }];
    kernel.operations.clear();
    const { failures, rejected } = await sync({ wanted });
    assert.deepEqual([failures, kindsOf(rejected)], [[], ["chain-write"]]);
    assert.equal(rulesOf("KUBE-SERVICES").length, 1 + many.length);
    assert.ok(kernel.operations.texts().length < 30, "it is not searched one by one");
    reject(() => false);
    await sync({ wanted });
    assert.equal(rulesOf("KUBE-SERVICES").length, 1 + rules.length);
  });

  it("among thousands is found with a few restores", async () => {
    const wanted = Array.from({ length: 3_000 }, (_, index) =>
      natChain(`KUBE-OWN-${index}`, accept),
    );
    reject(({ name }) => name === "KUBE-OWN-1234");
    kernel.operations.clear();
    await sync({ wanted });
    assert.equal(rulesOf("KUBE-OWN-").length, 2 * (wanted.length - 1));
    assert.ok(kernel.operations.texts().length < 40);
  });

  it("that a third party caused is written in the same sync", async () => {
    await sync({ wanted: [services, other] });
    kernel.iptables.table("IPv4", "nat").flush();
    const next = natChain(ofPort.name, jumpTo(other.name));
    const { rejected } = await sync({ wanted: [services, other, next] });
    assert.deepEqual(kindsOf(rejected), []);
    assert.deepEqual(rulesOf(ofPort.name), [ofPort.name, `-j ${other.name}`]);
  });
});

describe("rules that may have been changed by any program", () => {
  it("may differ once another program wrote rules, but not after kube-ipvs' own writes", async () => {
    assert.equal(await reconciler.mayDiffer(), true);
    await sync({ wanted: [services] });
    assert.equal(await reconciler.mayDiffer(), false);
    await sync({ wanted: [services, ofPort] });
    assert.equal(await reconciler.mayDiffer(), false);
    kernel.iptables.table("IPv4", "filter").append("INPUT", "-j DROP");
    assert.equal(await reconciler.mayDiffer(), true);
    await sync({ wanted: [services, ofPort] });
    assert.equal(await reconciler.mayDiffer(), true, "a sync that reads nothing detects nothing");
    reconciler.invalidate();
    await sync({ wanted: [services, ofPort] });
    assert.equal(await reconciler.mayDiffer(), false);
  });

  it("may differ if another program wrote rules before kube-ipvs' own write", async () => {
    await sync({ wanted: [services] });
    kernel.iptables.table("IPv4", "nat").flush();
    await sync({ wanted: [services, ofPort] });
    assert.equal(await reconciler.mayDiffer(), true);
  });

  it("may differ if another program wrote rules while they were read", async () => {
    const { iptables } = kernel;
    await sync({ wanted: [services] });
    const observe = iptables.observe.bind(iptables);
    for (const wanted of [[services], [services, ofPort]]) {
      iptables.observe = async (...given) => {
        const chains = await observe(...given);
        iptables.table("IPv4", "nat").flush();
        return chains;
      };
      reconciler.invalidate();
      await sync({ wanted });
      assert.deepEqual(rulesOf("KUBE-SERVICES").slice(1), []);
      assert.equal(await reconciler.mayDiffer(), true);
      iptables.observe = observe;
      reconciler.invalidate();
      await sync({ wanted });
    }
  });

  it("are compared at least once an hour", async () => {
    await sync({ wanted: [services] });
    await clock.advance(3_599_000);
    assert.equal(await reconciler.mayDiffer(), false);
    await sync({ wanted: [services, ofPort] });
    await clock.advance(1_000);
    assert.equal(await reconciler.mayDiffer(), true, "a partial sync is not enough");
  });

  it("may differ at any time if the kernel has no generation counter", async () => {
    kernel.iptables.hasGenerations = false;
    await sync({ wanted: [services] });
    assert.equal(await reconciler.mayDiffer(), true);
  });
});

it("a sync that reads the rules plans shared chains again, even if no change of them was noted", async () => {
  const planned: ServiceRules[] = [];
  const plan = new TablesPlan({ startedAtMs: 0, onPlan: (one) => planned.push(one) });
  plan.tracker.noteService(undefined, serviceRecord());
  plan.tracker.noteSlice(undefined, sliceRecord([endpointRecord("10.244.1.10")]));
  for (const _ of plan.update(iptablesOptions()));
  await reconciler.sync(plan);
  const service = /-d 10\.96\.0\.10\/32/;
  assert.match(rulesOf("KUBE-SERVICES").join(), service);
  // Simulates a change that was not recorded.
  (planned[0]?.servicePorts[0]?.shared as SharedRule[]).length = 0;
  await reconciler.sync(plan);
  assert.match(rulesOf("KUBE-SERVICES").join(), service);
  reconciler.invalidate();
  await reconciler.sync(plan);
  assert.doesNotMatch(rulesOf("KUBE-SERVICES").join(), service);
});

describe("tracked UDP flows", () => {
  const cleaned = async (input: SyncInput): Promise<readonly number[]> => {
    kernel.conntrack.flows = [dnsFlow()];
    const { conntrackPasses, changes } = await sync(input);
    const deleted = conntrackPasses.map(({ deletedCount }) => deletedCount);
    assert.equal(changes.get("conntrack-delete"), deleted.includes(1) ? 1 : undefined);
    return deleted;
  };

  it("are deleted if their endpoints changed, and all stale ones after rules were missing", async () => {
    const udp = [dns];
    const wanted = [services, ofPort];
    assert.deepEqual(await cleaned({ wanted: [services], udp }), [1]);
    reconciler.invalidate();
    assert.deepEqual(await cleaned({ wanted: [services], udp }), [], "none was missing");
    assert.deepEqual(await cleaned({ wanted, udp }), []);
    kernel.iptables.table("IPv4", "nat").flush();
    reconciler.invalidate();
    assert.deepEqual(await cleaned({ wanted, udp }), [1]);
    assert.deepEqual(
      await cleaned({ wanted, udp: [{ ...dns, answers: new Set([hostPort("a", 1)]) }] }),
      [1],
    );
    assert.deepEqual(await cleaned({ wanted, udp: [] }), [1], "the destination is gone");
  });

  it("cause a failure if they cannot be listed, and are checked again", async () => {
    const isList = ({ action }: Operation): boolean => action === "list-udp-flows";
    kernel.operations.failWhere(isList, errno.EPERM, 1);
    kernel.conntrack.flows = [dnsFlow()];
    const { failures } = await sync({ wanted: [services], udp: [dns] });
    assert.deepEqual(
      failures.map(({ kind }) => kind),
      ["conntrack-delete"],
    );
    assert.deepEqual(await cleaned({ wanted: [services], udp: [dns] }), [1]);
  });
});
