/** Tests that repairs back off if a third party reverts them, and that nothing else is delayed. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { setFor } from "../../../../src/plan/sets.ts";
import type { Drift } from "../../../../src/reconcile/drift.ts";
import type { SyncReport } from "../../../../src/reconcile/report.ts";
import {
  distrusted,
  isBackingOff,
  noteDrifts,
  reconcileConflicts,
} from "../../../../src/reconcile/status/repairs.ts";
import { StatusTable } from "../../../../src/reconcile/status/status-table.ts";
import { subjectKey } from "../../../../src/reconcile/subject.ts";
import type { RealServer } from "../../../../src/state/real-server.ts";
import { addressPortEntry } from "../../../../src/state/set-entry.ts";
import type { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { Bench } from "../../../support/reconcile-bench.ts";
import { endpointRecord, ip, serviceRecord } from "../../../support/records.ts";

const drift: Drift = {
  kind: "address",
  subject: { type: "address", address: ip("10.96.0.10") },
  before: "present",
  after: "absent",
};
const other: Drift = { ...drift, subject: { type: "address", address: ip("10.96.0.11") } };
const secondMs = 1_000;

describe("repairs", () => {
  let table: StatusTable;
  let nowMs: number;

  beforeEach(() => {
    table = new StatusTable();
    nowMs = 0;
  });

  function change(times: number, what: Drift = drift): void {
    for (let time = 0; time < times; time += 1) {
      nowMs += secondMs;
      noteDrifts(table, [what], nowMs);
    }
  }

  it("are made immediately for four changes in ten minutes, and delayed from the fifth on", () => {
    change(4);
    assert.equal(isBackingOff(table, drift.subject, nowMs), false);
    assert.deepEqual(reconcileConflicts(table), []);
    change(1);
    assert.equal(isBackingOff(table, drift.subject, nowMs), true);
    assert.deepEqual(reconcileConflicts(table), [
      {
        kind: "address",
        subject: drift.subject,
        driftCount: 5,
        pauseMs: 30_000,
        pausedUntilMs: 35_000,
      },
    ]);
    assert.equal(isBackingOff(table, drift.subject, nowMs + 29_999), true);
    assert.equal(isBackingOff(table, drift.subject, nowMs + 30_000), false);
  });

  it("are not delayed for five changes in a longer time", () => {
    for (let time = 0; time < 20; time += 1) {
      change(1);
      nowMs += 150 * secondMs;
    }
    assert.deepEqual(reconcileConflicts(table), []);
  });

  it("are delayed twice as long after each reverted repair, up to ten minutes", () => {
    change(5);
    const pauses: number[] = [];
    for (let time = 0; time < 7; time += 1) {
      const pauseMs = reconcileConflicts(table)[0]?.pauseMs ?? 0;
      pauses.push(pauseMs / secondMs);
      nowMs += pauseMs;
      change(1);
    }
    assert.deepEqual(pauses, [30, 60, 120, 240, 480, 600, 600]);
  });

  it("do not count changes while a repair is delayed", () => {
    change(5);
    change(20);
    assert.equal(reconcileConflicts(table)[0]?.pauseMs, 30_000);
    assert.equal(isBackingOff(table, drift.subject, nowMs + 10_000), false);
  });

  it("start again after ten quiet minutes beyond the delay", () => {
    change(5);
    nowMs += 30_000 + 599_000;
    noteDrifts(table, [], nowMs);
    assert.equal(reconcileConflicts(table).length, 1);
    noteDrifts(table, [], nowMs + 1_000);
    assert.deepEqual(reconcileConflicts(table), []);
    nowMs += 1_000;
    change(4);
    assert.equal(isBackingOff(table, drift.subject, nowMs), false);
  });

  it("do not delay other objects", () => {
    change(5);
    change(1, other);
    assert.equal(isBackingOff(table, other.subject, nowMs), false);
  });

  it("count a chain once, regardless of the number of changed rules", () => {
    const chain = {
      type: "chain",
      family: "IPv4",
      table: "nat",
      chainName: "KUBE-SERVICES",
    } as const;
    const rules = ["a", "b", "c", "d", "e", "f"].map((text): Drift => {
      return { kind: "rule", subject: chain, before: text, after: "absent" };
    });
    noteDrifts(table, rules, secondMs);
    assert.deepEqual(reconcileConflicts(table), []);
  });

  describe("repairs of rules for source ranges", () => {
    const limit: Drift = {
      kind: "jump",
      subject: { type: "chain", family: "IPv4", table: "filter", chainName: "INPUT" },
      before: "-j KUBE-PROXY-FIREWALL",
      after: "absent",
    };

    it("are never delayed for more than a second", () => {
      change(50, limit);
      assert.equal(table.isPending(limit.subject, nowMs), false);
      nowMs += 400;
      noteDrifts(table, [limit], nowMs);
      assert.equal(table.isPending(limit.subject, nowMs + 599), true);
      assert.equal(table.isPending(limit.subject, nowMs + 600), false);
      assert.equal(table.nextRetryMs, nowMs + 600);
    });

    it("are not trusted from the fifth time on until they have lasted for a minute", () => {
      change(4, limit);
      assert.deepEqual([...distrusted(table, nowMs).values()], []);
      change(1, limit);
      assert.deepEqual([...distrusted(table, nowMs).values()], [limit.subject]);
      assert.equal(table.nextRetryMs, nowMs + 60_000);
      change(1, limit);
      assert.deepEqual([...distrusted(table, nowMs + 59_999).values()], [limit.subject]);
      assert.deepEqual([...distrusted(table, nowMs + 60_000).values()], []);
    });
  });

  describe("repairs in tables of nf_tables, which notify of each change", () => {
    const chain = { type: "chain", family: "IPv4", table: "nat", chainName: "PREROUTING" } as const;
    const jump: Drift = { kind: "jump", subject: chain, before: "-j A", after: "absent" };
    const entry = { type: "entry", setName: "KUBE-LOAD-BALANCER-FW" } as const;
    const limit: Drift = {
      kind: "entry",
      subject: { ...entry, entry: addressPortEntry(ip("203.0.113.10"), "TCP", 80) },
      before: "present",
      after: "absent",
    };

    function change(times: number, pauseMs: number, what: Drift): void {
      for (let time = 0; time < times; time += 1) {
        nowMs += pauseMs;
        noteDrifts(table, [what], nowMs, true);
      }
    }

    it("are never delayed for more than a second", () => {
      change(50, secondMs, jump);
      assert.equal(table.isPending(chain, nowMs), false);
      change(1, 400, jump);
      assert.equal(table.isPending(chain, nowMs + 599), true);
      assert.equal(table.isPending(chain, nowMs + 600), false);
    });

    it("of source ranges are trusted if a third party reverts them once a minute, not once a second", () => {
      change(60, 60 * secondMs, limit);
      assert.deepEqual([...distrusted(table, nowMs).values()], []);
      change(5, secondMs, limit);
      assert.deepEqual([...distrusted(table, nowMs).values()], [limit.subject]);
    });

    it("of addresses are still delayed", () => {
      change(5, secondMs, drift);
      assert.equal(isBackingOff(table, drift.subject, nowMs), true);
    });
  });

  it("never delay a set, because rules refer to it", () => {
    change(30, { ...drift, kind: "set", subject: { type: "set", setName: "KUBE-CLUSTER-IP" } });
    assert.deepEqual(reconcileConflicts(table), []);
  });
});

describe("a repair that a third party reverts", () => {
  const address = ip("10.96.0.10");
  const server = { protocol: "TCP", address, port: 80 } as const;
  const realServer: RealServer = {
    address: ip("10.244.2.11"),
    port: 8080,
    weight: 1,
    forwardingMethod: 0,
  };
  const entry = { kind: "address-remove", address } as const;
  let bench: Bench;
  let kernel: FakeKernel;

  beforeEach(async () => {
    bench = new Bench(undefined, { manualWeights: "repair" });
    ({ kernel } = bench);
    bench.put(serviceRecord(), [endpointRecord("10.244.2.11"), endpointRecord("10.244.2.12")]);
    await bench.sync();
  });

  /** Repeats an action `times` times, each followed by a sync. Returns the last sync's report and writes. */
  async function fight(
    times: number,
    attack: () => unknown,
  ): Promise<{ readonly report: SyncReport; readonly writes: readonly string[] }> {
    for (let time = 1; ; time += 1) {
      await attack();
      await bench.clock.advance(secondMs);
      kernel.operations.clear();
      const report = await bench.sync(true);
      if (time === times) return { report, writes: kernel.operations.texts() };
    }
  }

  function takeWeight(): unknown {
    const change = { ...realServer, weight: 7 };
    return kernel.ipvs.apply([
      { kind: "real-server-update", virtualServer: server, after: change },
    ]);
  }

  const attacks: readonly [name: string, attack: () => unknown, conflict: string][] = [
    ["an address", () => kernel.link.apply([entry]), "address 10.96.0.10"],
    ["the link", () => kernel.link.remove(), "link kube-ipvs0"],
    ["a weight", takeWeight, "real-server TCP 10.96.0.10:80 -> 10.244.2.11:8080"],
    [
      "a virtual server",
      () => kernel.ipvs.apply([{ kind: "virtual-server-remove", before: server }]),
      "virtual-server TCP 10.96.0.10:80",
    ],
    [
      "a jump that restricts nothing",
      () => kernel.iptables.table("IPv4", "nat").remove("POSTROUTING", /KUBE-POSTROUTING/),
      "chain IPv4 nat POSTROUTING",
    ],
  ];
  for (const [name, attack, conflict] of attacks) {
    it(`waits after the fourth time, is reported, and is made when the delay is over: ${name}`, async () => {
      assert.ok((await fight(4, attack)).writes.length > 0);
      const { report, writes } = await fight(1, attack);
      // Without a virtual server, packets to the address would be delivered to the node itself.
      const isUnserved = name === "a virtual server";
      const isBoundAgain = isUnserved || name === "an address" || name === "the link";
      assert.deepEqual(writes, isUnserved ? ["link address-remove 10.96.0.10"] : []);
      assert.deepEqual(
        report.drifts.map(({ action }) => action),
        ["suppress"],
      );
      assert.deepEqual(
        report.reconcileConflicts.map(({ subject }) => subjectKey(subject)),
        [conflict],
      );
      const again = await fight(1, () => undefined);
      assert.deepEqual([again.writes, again.report.drifts], [[], []]);
      await bench.clock.advance(30 * secondMs);
      const last = await fight(1, () => undefined);
      assert.ok(last.writes.length > 0);
      assert.equal(last.writes.includes("link address-add 10.96.0.10"), isBoundAgain);
      assert.deepEqual((await bench.sync(true)).drifts, []);
    });
  }

  it("is made every time if the address guard was removed, and is reported", async () => {
    const attack = (): unknown =>
      kernel.iptables.table("IPv4", "filter").remove("INPUT", /KUBE-IPVS-FILTER/);
    const { report, writes } = await fight(20, attack);
    assert.deepEqual(writes, ["iptables apply IPv4: jump-insert filter INPUT KUBE-IPVS-FILTER"]);
    assert.deepEqual(
      report.reconcileConflicts.map(({ subject, pauseMs }) => [subjectKey(subject), pauseMs]),
      [["chain IPv4 filter INPUT", secondMs]],
    );
  });

  it("does not delay other repairs, not even in the same virtual server", async () => {
    await fight(5, takeWeight);
    const second = { ...realServer, address: ip("10.244.2.12") };
    const { writes, report } = await fight(1, () => {
      return kernel.ipvs.apply([
        { kind: "real-server-remove", virtualServer: server, before: second },
      ]);
    });
    assert.deepEqual(writes, ["ipvs real-server-create TCP 10.96.0.10:80 -> 10.244.2.12:8080"]);
    assert.deepEqual(
      report.drifts.map(({ action }) => action),
      ["repair"],
    );
    assert.deepEqual((await bench.sync(true)).drifts, []);
  });

  it("also restores objects that depend only on it", async () => {
    const set = setFor("clusterIp", "IPv4");
    const mark = addressPortEntry(ip("10.96.0.10"), "TCP", 80);
    const wanted = bench.state();
    for (let time = 0; time < 5; time += 1) {
      await kernel.ipSets.apply([{ kind: "entry-remove", set, entry: mark }]);
      if (time === 4) await kernel.ipvs.apply([{ kind: "virtual-server-remove", before: server }]);
      await bench.verify();
      await bench.sync();
    }
    assert.doesNotMatch(bench.state(), /-t 10\.96\.0\.10:80/);
    assert.deepEqual(await bench.writes(), []);
    await bench.clock.advance(30 * secondMs);
    await bench.sync();
    assert.equal(bench.state(), wanted);
  });

  it("does not delay changes from the cluster", async () => {
    await fight(5, takeWeight);
    bench.put(serviceRecord(), [endpointRecord("10.244.2.11")]);
    const { writes } = await fight(1, () => undefined);
    assert.ok(writes.includes("ipvs real-server-update TCP 10.96.0.10:80 -> 10.244.2.11:8080"));
  });

  it("restores the addresses with the delayed link, in a partial sync", async () => {
    for (let time = 0; time < 5; time += 1) {
      await kernel.link.remove();
      bench.reconciler.noteBound(undefined);
      await bench.sync();
    }
    assert.deepEqual(await bench.writes(), []);
    await bench.clock.advance(30 * secondMs);
    assert.deepEqual(await bench.writes(), [
      "link create-link kube-ipvs0",
      "link address-add 10.96.0.10",
    ]);
    assert.deepEqual(await bench.writes(true), []);
  });

  it("also waits in partial syncs, and is due by itself when the delay is over", async () => {
    await fight(5, () => kernel.link.apply([entry]));
    const { reconciler, clock } = bench;
    assert.equal(reconciler.nextRetryMs, clock.monotonicMs() + 30 * secondMs);
    bench.reconciler.noteBound([address]);
    bench.reconciler.noteBound([]);
    assert.equal(reconciler.needsObservation, false);
    assert.deepEqual(await bench.writes(), []);
    await clock.advance(30 * secondMs);
    assert.deepEqual(await bench.writes(), ["link address-add 10.96.0.10"]);
    assert.equal(reconciler.nextRetryMs, undefined);
    assert.equal(reconciler.needsSync, false);
    bench.reconciler.noteBound([address, ip("10.9.9.9")]);
    assert.equal(reconciler.needsSync, true);
  });
});
