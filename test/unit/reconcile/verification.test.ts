/**
 * Tests that a cheap check finds state that a third party removed between two syncs, and that it is repaired with as
 * few writes as possible.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../src/base/errno.ts";
import { setFor } from "../../../src/plan/sets.ts";
import { virtualServerKey } from "../../../src/state/virtual-server.ts";
import type { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import type { Operation } from "../../support/fake-kernel/operations.ts";
import { ipSetText, iptablesText } from "../../support/fake-kernel/state-text.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { endpointRecord, ip, serviceRecord } from "../../support/records.ts";

const clusterIps = setFor("clusterIp", "IPv4");
const entry = "10.96.0.10,tcp:80";

let bench: Bench;
let kernel: FakeKernel;

beforeEach(async () => {
  bench = new Bench();
  ({ kernel } = bench);
  bench.put(serviceRecord(), [endpointRecord("10.244.2.11")]);
  await bench.sync();
});

describe("the check of the sets", () => {
  it("finds nothing after a sync", async () => {
    assert.deepEqual(await bench.reconciler.verification.checkSets(), []);
  });

  const losses: readonly [name: string, lose: () => void, writes: readonly string[]][] = [
    ["emptied", () => kernel.ipSets.put(clusterIps), [`ipset entry-add KUBE-CLUSTER-IP ${entry}`]],
    [
      "filled",
      () => kernel.ipSets.put(clusterIps, [entry, "10.9.9.9,tcp:1"]),
      ["ipset entry-remove KUBE-CLUSTER-IP 10.9.9.9,tcp:1"],
    ],
    [
      "recreated with a different capacity",
      () => kernel.ipSets.put({ ...clusterIps, maxElements: 64 }, [entry]),
      [
        "ipset create-set KTMP-CLUSTER-IP",
        `ipset entry-add KTMP-CLUSTER-IP ${entry}`,
        "ipset swap-sets KUBE-CLUSTER-IP KTMP-CLUSTER-IP",
        "ipset destroy-set KTMP-CLUSTER-IP",
      ],
    ],
    [
      "recreated with a timeout",
      () => kernel.ipSets.put(clusterIps, [entry], { hasOptions: true }),
      [
        "ipset create-set KTMP-CLUSTER-IP",
        `ipset entry-add KTMP-CLUSTER-IP ${entry}`,
        "ipset swap-sets KUBE-CLUSTER-IP KTMP-CLUSTER-IP",
        "ipset destroy-set KTMP-CLUSTER-IP",
      ],
    ],
  ];
  for (const [name, lose, writes] of losses) {
    it(`finds one that was ${name}, and the next sync repairs it`, async () => {
      lose();
      assert.deepEqual(await bench.reconciler.verification.checkSets(), ["KUBE-CLUSTER-IP"]);
      assert.deepEqual(await bench.writes(), writes);
      assert.deepEqual(await bench.reconciler.verification.checkSets(), []);
    });
  }

  it("finds a destroyed set again if the entries of another one could not be read", async () => {
    const loopBack = setFor("loopBack", "IPv4");
    kernel.ipSets.put(loopBack, ["10.244.9.9,tcp:80,10.244.9.9"]);
    kernel.ipSets.lose(clusterIps.name);
    const isRead = ({ action }: Operation): boolean => action === "list-entries";
    kernel.operations.failWhere(isRead, errno.ENOENT, 1);
    await assert.rejects(bench.reconciler.verification.checkSets());
    await bench.reconciler.verification.checkSets();
    await bench.sync();
    assert.match(ipSetText(kernel), /add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
  });

  it("requests only the headers", async () => {
    const asked: string[] = [];
    kernel.operations.failWhere(({ action, isRead }) => {
      if (isRead === true) asked.push(action);
      return false;
    }, errno.EPERM);
    await bench.reconciler.verification.checkSets();
    assert.deepEqual(asked, ["list-sets"]);
  });
});

describe("the check of the rules", () => {
  it("finds nothing after a sync, also with third-party rules", async () => {
    kernel.iptables.table("IPv4", "filter").append("INPUT", "-s 192.0.2.1/32 -j DROP");
    assert.equal(await bench.checkRules(), false);
    assert.deepEqual(await bench.writes(), []);
  });

  const losses: readonly [name: string, lose: () => void, write: string][] = [
    [
      "the upper jump",
      () => kernel.iptables.table("IPv4", "filter").remove("INPUT", /KUBE-IPVS-FILTER/),
      "IPv4: jump-insert filter INPUT KUBE-IPVS-FILTER",
    ],
    [
      "a rule of a chain",
      () => kernel.iptables.table("IPv4", "nat").remove("KUBE-SERVICES", /KUBE-NODE-PORT/),
      "IPv4: chain-write nat KUBE-SERVICES",
    ],
    [
      "an extra rule",
      () => kernel.iptables.table("IPv4", "filter").append("KUBE-FORWARD", "-j DROP"),
      "IPv4: chain-write filter KUBE-FORWARD",
    ],
  ];
  for (const [name, lose, write] of losses) {
    it(`finds ${name}, and the next sync repairs it with one write`, async () => {
      lose();
      assert.equal(await bench.checkRules(), true);
      assert.deepEqual(await bench.writes(), [`iptables apply ${write}`]);
      assert.equal(await bench.checkRules(), false);
    });
  }

  it("finds a flushed table, and the next sync writes only that table", async () => {
    const before = iptablesText(kernel, "IPv4");
    kernel.iptables.table("IPv4", "nat").flush();
    assert.equal(await bench.checkRules(), true);
    const [write, ...others] = await bench.writes();
    assert.match(write ?? "", /^iptables apply IPv4: chain-write nat KUBE-SERVICES, /);
    assert.doesNotMatch(write ?? "", / filter /);
    assert.deepEqual(others, []);
    assert.equal(iptablesText(kernel, "IPv4"), before);
  });

  it("finds sets that were removed with the rules, so that the next sync creates them first", async () => {
    kernel.iptables.table("IPv4", "filter").flush();
    kernel.ipSets.lose(setFor("externalIpLocal", "IPv4").name);
    assert.equal(await bench.checkRules(), true);
    const report = await bench.sync();
    assert.deepEqual([report.failures, report.rejections], [[], []]);
    assert.ok(
      report.drifts.some(
        ({ subject }) => subject.type === "set" && subject.setName === "KUBE-EXTERNAL-IP-LOCAL",
      ),
    );
    assert.equal(report.changes.get("set-create"), 1);
  });

  it("lets third-party rules remain above kube-ipvs's jumps", async () => {
    const jumps = kernel.iptables.peek("IPv4").find(({ name }) => name === "INPUT")?.rules ?? [];
    const input = kernel.iptables.table("IPv4", "filter");
    input.remove("INPUT", /KUBE/);
    input.append("INPUT", "-j DROP");
    for (const { text } of jumps) input.append("INPUT", text);
    assert.equal(await bench.checkRules(), false);
    assert.deepEqual(await bench.writes(true), []);
  });
});

describe("a restore that fails on flushed chains", () => {
  const service = serviceRecord({ externalIps: [endpointRecord("203.0.113.9").address] });

  beforeEach(() => {
    kernel.iptables.table("IPv4", "filter").flush();
    // The first entry of KUBE-EXTERNAL-IP changes chains in nat, which are cached as they were before the flush.
    bench.put(service, [endpointRecord("10.244.2.11")]);
  });

  /** An error like that of iptables-restore. */
  const error = Object.assign(new Error("Cannot write rules of IPv4: exit code 2"), {
    exitCode: 2,
  });
  const isRestore = ({ facility, isRead }: Operation): boolean =>
    facility === "iptables" && isRead !== true;

  async function assertRight(): Promise<void> {
    const want = new Bench();
    want.put(service, [endpointRecord("10.244.2.11")]);
    await want.sync();
    assert.equal(iptablesText(kernel, "IPv4"), iptablesText(want.kernel, "IPv4"));
    assert.equal(bench.state(), want.state());
  }

  it("is repeated change by change, and is neither a failure nor a rejection", async () => {
    kernel.operations.failWhere(isRestore, error, 1);
    const report = await bench.sync();
    assert.deepEqual([report.failures, report.rejections], [[], []]);
    assert.equal(await bench.checkRules(), true);
    await bench.sync();
    await assertRight();
  });

  it("causes the rules to be observed immediately, and the next sync writes all missing ones", async () => {
    const heal = kernel.operations.failWhere(isRestore, error);
    const report = await bench.sync();
    assert.deepEqual([report.failures, report.rejections], [[], []]);
    assert.deepEqual(report.failedRestores, ["IPv4"]);
    assert.equal(bench.reconciler.nextRetryMs, bench.clock.monotonicMs());
    heal();
    const next = await bench.sync();
    assert.deepEqual([next.failures, next.rejections], [[], []]);
    await assertRight();
    assert.equal(bench.reconciler.nextRetryMs, undefined);
  });

  it("is reported if it fails again", async () => {
    kernel.operations.failWhere(isRestore, error);
    await bench.sync();
    const { failures, rejections } = await bench.sync();
    assert.deepEqual(failures, []);
    assert.ok(rejections.length > 0);
    assert.deepEqual([...new Set(rejections.map(({ reason }) => reason))], ["exit-2"]);
  });

  it("is a failure if the program did not run, and the rules are observed", async () => {
    kernel.operations.failWhere(isRestore, new Error("spawn iptables-restore ENOENT"), 1);
    const report = await bench.sync();
    assert.equal(report.failures.length, 1);
    assert.equal(bench.reconciler.needsObservation, true);
    assert.deepEqual((await bench.sync()).failures, []);
    await assertRight();
  });
});

describe("a round of the verification", () => {
  const serviceCount = 1_200;

  /** A bench in which each Service has its own virtual server. */
  async function benchOfMany(): Promise<Bench> {
    const many = new Bench();
    for (let index = 0; index < serviceCount; index += 1) {
      const clusterIp = ip(`10.96.${Math.floor(index / 250)}.${1 + (index % 250)}`);
      many.put(serviceRecord({ name: `default/svc-${index}`, clusterIps: [clusterIp] }), [
        endpointRecord("10.244.2.11"),
      ]);
    }
    await many.sync();
    return many;
  }

  it("reads a bounded share per period, in steps, and everything in the end", async () => {
    const many = await benchOfMany();
    const read: string[] = [];
    const { ipvs } = many.kernel;
    const readRealServers = ipvs.readRealServers.bind(ipvs);
    ipvs.readRealServers = (servers, present) => {
      read.push(...servers.map(virtualServerKey));
      return readRealServers(servers, present);
    };
    const counts: number[] = [];
    for (let period = 0; period < 2; period += 1) {
      const steps = await many.reconciler.verification.beginPeriod([], 4);
      for (const step of steps) {
        await step();
        counts.push(read.length);
      }
    }
    assert.deepEqual(counts, [500, 1_000, 1_200]);
    assert.equal(new Set(read).size, serviceCount);
    assert.equal(many.reconciler.needsSync, false);
  });

  it("omits objects that were removed between two steps", async () => {
    const many = await benchOfMany();
    const steps = await many.reconciler.verification.beginPeriod([], 1);
    many.drop("default/svc-1199");
    await many.sync();
    for (const step of steps) await step();
    assert.equal(many.reconciler.needsSync, false);
  });
});
