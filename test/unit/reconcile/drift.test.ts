/**
 * Tests that third-party changes are found, reported with the values before and after, and repaired with as few writes
 * as possible.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { setFor } from "../../../src/plan/sets.ts";
import type { Drift } from "../../../src/reconcile/drift.ts";
import { readAddresses } from "../../../src/reconcile/observed/read-addresses.ts";
import type { SyncReport } from "../../../src/reconcile/report.ts";
import { subjectText } from "../../../src/reconcile/subject.ts";
import type { RealServer } from "../../../src/state/real-server.ts";
import type { VirtualServer } from "../../../src/state/virtual-server.ts";
import type { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { iptablesText } from "../../support/fake-kernel/state-text.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { endpointRecord, ip, serviceRecord } from "../../support/records.ts";

const address = ip("10.96.0.10");
const virtualServer: VirtualServer = {
  protocol: "TCP",
  address,
  port: 80,
  scheduler: "rr",
  persistenceTimeoutSeconds: 0,
  persistencePrefixLength: 32,
  flags: 0,
};
const realServer: RealServer = {
  address: ip("10.244.2.11"),
  port: 8080,
  weight: 1,
  forwardingMethod: 0,
};
const key = "TCP 10.96.0.10:80";
const member = `${key} -> 10.244.2.11:8080`;
const clusterIps = setFor("clusterIp", "IPv4");
const entry = "10.96.0.10,tcp:80";
const sysctl = { path: "net/ipv4/vs/conntrack", value: "1" };
const jumpText = '-m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER';

let bench: Bench;
let kernel: FakeKernel;

beforeEach(async () => {
  bench = new Bench(undefined, { manualWeights: "repair" });
  ({ kernel } = bench);
  kernel.sysctl.values.set(sysctl.path, sysctl.value);
  bench.sysctls = [sysctl];
  bench.put(serviceRecord(), [endpointRecord("10.244.2.11")]);
  await bench.sync();
});

/** `kind subject: before => after`, and the reaction. */
function told({ drifts }: SyncReport): readonly string[] {
  return drifts.map(
    ({ kind, subject, before, after, action }) =>
      `${action} ${kind} ${subjectText(subject)}: ${before} => ${after}`,
  );
}

interface Case {
  readonly kind: Drift["kind"] | "nothing";
  readonly name: string;
  readonly lose: () => unknown;
  readonly drift: readonly string[];
  readonly writes: readonly string[];
}

const cases: readonly Case[] = [
  {
    kind: "virtual-server",
    name: "a removed virtual server",
    lose: () => kernel.ipvs.apply([{ kind: "virtual-server-remove", before: virtualServer }]),
    drift: [`repair virtual-server ${key}: rr, 1 real servers => absent`],
    writes: [`ipvs virtual-server-create ${key}`, `ipvs real-server-create ${member}`],
  },
  {
    kind: "scheduler",
    name: "another scheduler",
    lose: () =>
      kernel.ipvs.apply([
        { kind: "virtual-server-update", after: { ...virtualServer, scheduler: "wlc" } },
      ]),
    drift: [`repair scheduler ${key}: rr => wlc`],
    writes: [`ipvs virtual-server-update ${key}`],
  },
  {
    kind: "virtual-server",
    name: "enabled persistence",
    lose: () =>
      kernel.ipvs.apply([
        {
          kind: "virtual-server-update",
          after: { ...virtualServer, persistenceTimeoutSeconds: 300 },
        },
      ]),
    drift: [`repair virtual-server ${key}: rr => rr persistent 300s`],
    writes: [`ipvs virtual-server-update ${key}`],
  },
  {
    kind: "real-server",
    name: "a removed real server",
    lose: () =>
      kernel.ipvs.apply([{ kind: "real-server-remove", virtualServer, before: realServer }]),
    drift: [`repair real-server ${member}: weight 1 => absent`],
    writes: [`ipvs real-server-create ${member}`],
  },
  {
    kind: "real-server",
    name: "an extra real server",
    lose: () =>
      kernel.ipvs.apply([
        {
          kind: "real-server-create",
          virtualServer,
          after: { ...realServer, address: ip("10.9.9.9") },
        },
      ]),
    drift: [`repair real-server ${key} -> 10.9.9.9:8080: absent => weight 1`],
    writes: [
      `ipvs real-server-update ${key} -> 10.9.9.9:8080`,
      `ipvs real-server-remove ${key} -> 10.9.9.9:8080`,
    ],
  },
  {
    kind: "weight",
    name: "another weight",
    lose: () =>
      kernel.ipvs.apply([
        { kind: "real-server-update", virtualServer, after: { ...realServer, weight: 0 } },
      ]),
    drift: [`repair weight ${member}: 1 => 0`],
    writes: [`ipvs real-server-update ${member}`],
  },
  {
    kind: "address",
    name: "a removed address",
    lose: () => kernel.link.apply([{ kind: "address-remove", address }]),
    drift: ["repair address 10.96.0.10: present => absent"],
    writes: ["link address-add 10.96.0.10"],
  },
  {
    kind: "address",
    name: "an extra address",
    lose: () => kernel.link.apply([{ kind: "address-add", address: ip("10.9.9.9") }]),
    drift: ["repair address 10.9.9.9: absent => present"],
    writes: ["link address-remove 10.9.9.9"],
  },
  {
    kind: "link",
    name: "the link, with its addresses",
    lose: () => kernel.link.remove(),
    drift: ["repair link kube-ipvs0: 1 addresses => absent"],
    writes: ["link create-link kube-ipvs0", "link address-add 10.96.0.10"],
  },
  {
    kind: "entry",
    name: "a removed entry and an extra one",
    lose: () => kernel.ipSets.put(clusterIps, ["10.9.9.9,tcp:1"]),
    drift: [
      `repair entry KUBE-CLUSTER-IP ${entry}: present => absent`,
      "repair entry KUBE-CLUSTER-IP 10.9.9.9,tcp:1: absent => present",
    ],
    writes: [
      `ipset entry-add KUBE-CLUSTER-IP ${entry}`,
      "ipset entry-remove KUBE-CLUSTER-IP 10.9.9.9,tcp:1",
    ],
  },
  {
    kind: "set",
    name: "a set recreated with a different capacity",
    lose: () => kernel.ipSets.put({ ...clusterIps, maxElements: 64 }, [entry]),
    drift: [
      "repair set KUBE-CLUSTER-IP: hash:ip,port IPv4 maxelem 65536 => hash:ip,port IPv4 maxelem 64",
    ],
    writes: [
      "ipset create-set KTMP-CLUSTER-IP",
      `ipset entry-add KTMP-CLUSTER-IP ${entry}`,
      "ipset swap-sets KUBE-CLUSTER-IP KTMP-CLUSTER-IP",
      "ipset destroy-set KTMP-CLUSTER-IP",
    ],
  },
  {
    kind: "jump",
    name: "a jump",
    lose: () => kernel.iptables.table("IPv4", "filter").remove("INPUT", /KUBE-IPVS-FILTER/),
    drift: [`repair jump IPv4 filter INPUT: ${jumpText} => absent`],
    writes: ["iptables apply IPv4: jump-insert filter INPUT KUBE-IPVS-FILTER"],
  },
  {
    kind: "rule",
    name: "an extra rule",
    lose: () => kernel.iptables.table("IPv6", "filter").append("KUBE-FORWARD", "-j DROP"),
    drift: ["repair rule IPv6 filter KUBE-FORWARD: absent => -j DROP"],
    writes: ["iptables apply IPv6: chain-write filter KUBE-FORWARD"],
  },
  {
    kind: "sysctl",
    name: "a sysctl",
    lose: () => kernel.sysctl.values.set(sysctl.path, "0"),
    drift: [`repair sysctl ${sysctl.path}: 1 => 0`],
    writes: [`sysctl write ${sysctl.path}=1`],
  },
  {
    kind: "nothing",
    name: "nothing, if nothing was changed",
    lose: () => undefined,
    drift: [],
    writes: [],
  },
  {
    kind: "nothing",
    name: "nothing in a third-party virtual server",
    lose: () =>
      kernel.ipvs.apply([
        {
          kind: "virtual-server-create",
          after: { ...virtualServer, address: ip("10.50.0.1") },
        },
      ]),
    drift: [],
    writes: [],
  },
];

describe("drift", () => {
  for (const { kind, name, lose, drift, writes } of cases) {
    it(`of kind ${kind}: ${name}`, async () => {
      await lose();
      kernel.operations.clear();
      assert.deepEqual(told(await bench.sync(true)), drift);
      assert.deepEqual(kernel.operations.texts(), writes);
      kernel.operations.clear();
      assert.deepEqual(told(await bench.sync(true)), []);
      assert.deepEqual(kernel.operations.texts(), []);
    });
  }

  /** Drift that this check does not find, because addresses and the link are read together with those of the node. */
  const unseen: readonly (Drift["kind"] | "nothing")[] = ["address", "link", "nothing"];
  /** Drift of rules, which have a separate check. */
  const ofRules: readonly (Drift["kind"] | "nothing")[] = ["jump", "rule"];
  for (const { kind, name, lose, drift, writes } of cases) {
    if (unseen.includes(kind)) continue;
    it(`is found by verification, and repaired by the next partial sync: ${kind}, ${name}`, async () => {
      const check = ofRules.includes(kind)
        ? (): Promise<boolean> => bench.checkRules()
        : (): Promise<boolean> => bench.verify();
      assert.equal(await check(), false);
      assert.equal(await check(), false);
      await lose();
      assert.equal(await check(), true);
      assert.equal(bench.reconciler.needsObservation, false);
      assert.equal(bench.reconciler.needsSync, true);
      kernel.operations.clear();
      assert.deepEqual(told(await bench.sync()), drift);
      assert.deepEqual(kernel.operations.texts(), writes);
      assert.equal(await check(), false);
      assert.deepEqual(told(await bench.sync()), []);
    });
  }

  it("of addresses and the link is found when the node's addresses are read", async () => {
    const read = async (): Promise<boolean> => {
      bench.reconciler.noteBound((await readAddresses(kernel)).bound);
      return bench.reconciler.needsSync;
    };
    assert.equal(await read(), false);
    await kernel.link.apply([{ kind: "address-add", address: ip("10.9.9.9") }]);
    assert.equal(await read(), true);
    assert.deepEqual(told(await bench.sync()), ["repair address 10.9.9.9: absent => present"]);
    assert.equal(await read(), false);
    await kernel.link.remove();
    assert.equal(await read(), true);
    kernel.operations.clear();
    assert.deepEqual(told(await bench.sync()), ["repair link kube-ipvs0: 1 addresses => absent"]);
    assert.deepEqual(kernel.operations.texts(), [
      "link create-link kube-ipvs0",
      "link address-add 10.96.0.10",
    ]);
    assert.equal(await read(), false);
  });

  it("of the link is reported once, also if it disappears while addresses are read", async () => {
    const list = kernel.link.listAddresses.bind(kernel.link);
    kernel.link.listAddresses = () => {
      kernel.link.lose();
      return list();
    };
    bench.reconciler.noteBound((await readAddresses(kernel)).bound);
    assert.deepEqual(told(await bench.sync()), ["repair link kube-ipvs0: 1 addresses => absent"]);
  });

  it("does not include a foreign virtual server", async () => {
    const foreign = { ...virtualServer, address: ip("10.50.0.1") };
    await kernel.ipvs.apply([{ kind: "virtual-server-create", after: foreign }]);
    assert.equal(await bench.verify(), true);
    kernel.operations.clear();
    assert.deepEqual(told(await bench.sync()), []);
    assert.deepEqual(kernel.operations.texts(), []);
    assert.equal(await bench.verify(), false);
  });

  it("does not exist if a third party changes nothing, also after changes of kube-ipvs", async () => {
    bench.put(serviceRecord({ name: "default/other", clusterIps: [ip("10.96.0.11")] }), [
      endpointRecord("10.244.2.12"),
    ]);
    await bench.sync();
    assert.equal(await bench.verify(), false);
    kernel.operations.clear();
    await bench.sync(true);
    assert.deepEqual(kernel.operations.texts(), []);
  });

  it("is repaired and reported while changes continue, together with other work of the partial sync", async () => {
    await kernel.ipvs.apply([{ kind: "real-server-remove", virtualServer, before: realServer }]);
    assert.equal(await bench.verify(), true);
    bench.put(serviceRecord({ name: "default/other", clusterIps: [ip("10.96.0.11")] }), [
      endpointRecord("10.244.2.12"),
    ]);
    assert.deepEqual(told(await bench.sync()), [
      `repair real-server ${member}: weight 1 => absent`,
    ]);
    assert.equal(await bench.verify(), false);
  });

  it("is unknown if something cannot be read; the check gives the reason, and finds it later", async () => {
    await kernel.ipvs.apply([{ kind: "real-server-remove", virtualServer, before: realServer }]);
    const restore = kernel.operations.failWhere(({ facility }) => facility === "ipvs", 12);
    await assert.rejects(bench.verify(), /ENOMEM/);
    assert.equal(bench.reconciler.needsSync, false);
    restore();
    assert.equal(await bench.verify(), true);
    assert.deepEqual(told(await bench.sync()), [
      `repair real-server ${member}: weight 1 => absent`,
    ]);
  });

  it("of rules causes reads only after a third party changed a rule", async () => {
    const filter = kernel.iptables.table("IPv4", "filter");
    const read: string[] = [];
    kernel.operations.failWhere(({ facility, action, subject }) => {
      if (facility === "iptables" && action === "observe") read.push(subject);
      return false;
    }, 1);
    const familiesRead = async (): Promise<readonly string[]> => {
      read.length = 0;
      assert.equal(await bench.checkRules(), false);
      return [...read];
    };
    await familiesRead();
    assert.deepEqual(await familiesRead(), []);
    filter.append("INPUT", "-s 192.0.2.1/32 -j DROP");
    assert.deepEqual(await familiesRead(), ["IPv4"]);
    assert.deepEqual(await familiesRead(), []);
    kernel.iptables.hasGenerations = false;
    assert.deepEqual(await familiesRead(), ["IPv4", "IPv6"]);
    kernel.iptables.hasGenerations = true;
    filter.remove("INPUT", /KUBE-IPVS-FILTER/);
    assert.equal(await bench.checkRules(), true);
  });

  it("does not exist if a third party removes its own object, whose Service is served by the next sync", async () => {
    const late = { ...virtualServer, address: ip("10.96.0.77") };
    await kernel.ipvs.apply([{ kind: "virtual-server-create", after: late }]);
    bench.put(serviceRecord({ name: "default/late", clusterIps: [ip("10.96.0.77")] }));
    await bench.verify();
    assert.deepEqual((await bench.sync()).conflicts, ["TCP 10.96.0.77:80"]);
    await kernel.ipvs.apply([{ kind: "virtual-server-remove", before: late }]);
    assert.equal(await bench.verify(), true);
    kernel.operations.clear();
    const report = await bench.sync();
    assert.deepEqual([report.conflicts, report.drifts], [[], []]);
    assert.ok(kernel.operations.texts().includes("ipvs virtual-server-create TCP 10.96.0.77:80"));
  });

  it("of whole tables is reported for each chain and each jump, and repaired with one restore", async () => {
    const before = iptablesText(kernel, "IPv4");
    for (const table of ["nat", "filter"] as const) kernel.iptables.table("IPv4", table).flush();
    kernel.operations.clear();
    const { drifts } = await bench.sync(true);
    const count = (kind: string): number => drifts.filter((one) => one.kind === kind).length;
    assert.deepEqual([count("chain"), count("jump"), drifts.length], [11, 9, 20]);
    assert.equal(kernel.operations.texts().length, 1);
    assert.equal(iptablesText(kernel, "IPv4"), before);
  });

  it("found by the check of the rules is reported once, with the sync that repairs it", async () => {
    kernel.iptables.table("IPv4", "filter").remove("INPUT", /KUBE-IPVS-FILTER/);
    await bench.checkRules();
    assert.deepEqual(told(await bench.sync()), [
      `repair jump IPv4 filter INPUT: ${jumpText} => absent`,
    ]);
    assert.deepEqual(told(await bench.sync(true)), []);
  });

  it("does not include differences found at startup", async () => {
    await kernel.link.apply([{ kind: "address-add", address: ip("10.9.9.9") }]);
    await kernel.ipvs.apply([
      { kind: "virtual-server-update", after: { ...virtualServer, scheduler: "wlc" } },
    ]);
    const restarted = new Bench(kernel);
    restarted.put(serviceRecord(), [endpointRecord("10.244.2.11")]);
    assert.deepEqual(told(await restarted.sync()), []);
  });

  it("does not include a write of kube-ipvs whose reply was lost", async () => {
    kernel.operations.loseReplyWhere(({ facility, isRead }) => facility === "ipvs" && !isRead);
    bench.put(serviceRecord(), [endpointRecord("10.244.2.11"), endpointRecord("10.244.2.12")]);
    const report = await bench.sync();
    assert.ok(report.failures.length > 0);
    assert.ok(bench.reconciler.needsObservation);
    assert.deepEqual(told(await bench.sync()), []);
  });

  it("does not include a drain or its end, but includes weight restored to a draining real server", async () => {
    const drained = { ...realServer, address: ip("10.244.2.12") };
    const both = [endpointRecord("10.244.2.11"), endpointRecord("10.244.2.12")];
    bench.put(serviceRecord(), both);
    await bench.sync();
    kernel.ipvs.setConnections(virtualServer, drained, { active: 1 });
    bench.put(serviceRecord(), both.slice(0, 1));
    await bench.sync();
    assert.deepEqual(told(await bench.sync(true)), []);
    await kernel.ipvs.apply([{ kind: "real-server-update", virtualServer, after: drained }]);
    assert.deepEqual(told(await bench.sync(true)), [
      `repair weight ${key} -> 10.244.2.12:8080: 0 => 1`,
    ]);
    const [held] = kernel.ipvs.peek();
    assert.deepEqual(
      held?.realServers.map(({ weight }) => weight),
      [1, 0],
    );
    await kernel.ipvs.apply([{ kind: "real-server-remove", virtualServer, before: drained }]);
    assert.deepEqual(told(await bench.sync(true)), []);
  });
});
