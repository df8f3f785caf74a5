/** Others undo our repairs: those wait longer and longer, and nothing else waits. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { Drift } from "../../../src/reconcile/drift.ts";
import { RepairGuard, thingOf } from "../../../src/reconcile/repair-guard.ts";
import type { SyncReport } from "../../../src/reconcile/report.ts";
import type { RealServer } from "../../../src/state/real-server.ts";
import type { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { endpointRecord, ip, serviceRecord } from "../../support/records.ts";

const drift: Drift = { kind: "address", subject: "10.96.0.10", before: "present", after: "absent" };
const other: Drift = { ...drift, subject: "10.96.0.11" };
const thing = thingOf(drift);
const secondMs = 1_000;

describe("RepairGuard", () => {
  let guard: RepairGuard;
  let nowMs: number;

  beforeEach(() => {
    guard = new RepairGuard();
    nowMs = 0;
  });

  function change(times: number, what: Drift = drift): void {
    for (let time = 0; time < times; time += 1) {
      nowMs += secondMs;
      guard.note([what], nowMs);
    }
  }

  it("lets four repairs in ten minutes happen, and puts the fifth off", () => {
    change(4);
    assert.equal(guard.isHeld(thing, nowMs), false);
    assert.deepEqual(guard.storms, []);
    change(1);
    assert.equal(guard.isHeld(thing, nowMs), true);
    assert.deepEqual(guard.storms, [
      { kind: "address", subject: "10.96.0.10", driftCount: 5, holdMs: 30_000 },
    ]);
    assert.equal(guard.isHeld(thing, nowMs + 29_999), true);
    assert.equal(guard.isHeld(thing, nowMs + 30_000), false);
  });

  it("does not take five in a longer time for a storm", () => {
    for (let time = 0; time < 20; time += 1) {
      change(1);
      nowMs += 150 * secondMs;
    }
    assert.deepEqual(guard.storms, []);
  });

  it("doubles the pause with each repair that is undone, up to ten minutes", () => {
    change(5);
    const pauses: number[] = [];
    for (let time = 0; time < 7; time += 1) {
      const holdMs = guard.storms[0]?.holdMs ?? 0;
      pauses.push(holdMs / secondMs);
      nowMs += holdMs;
      change(1);
    }
    assert.deepEqual(pauses, [30, 60, 120, 240, 480, 600, 600]);
  });

  it("does not count what happens while a repair waits", () => {
    change(5);
    change(20);
    assert.equal(guard.storms[0]?.holdMs, 30_000);
    assert.equal(guard.isHeld(thing, nowMs + 10_000), false);
  });

  it("forgets after ten quiet minutes beyond the pause", () => {
    change(5);
    nowMs += 30_000 + 599_000;
    guard.note([], nowMs);
    assert.equal(guard.storms.length, 1);
    guard.note([], nowMs + 1_000);
    assert.deepEqual(guard.storms, []);
    nowMs += 1_000;
    change(4);
    assert.equal(guard.isHeld(thing, nowMs), false);
  });

  it("holds nothing else up", () => {
    change(5);
    change(1, other);
    assert.equal(guard.isHeld(thingOf(other), nowMs), false);
  });

  it("counts a chain once, however many of its rules were changed", () => {
    const rules = ["a", "b", "c", "d", "e", "f"].map((text): Drift => {
      return { kind: "rule", subject: "IPv4 nat KUBE-SERVICES", before: text, after: "absent" };
    });
    guard.note(rules, secondMs);
    assert.deepEqual(guard.storms, []);
  });

  it("never puts off a set: rules name it", () => {
    change(30, { ...drift, kind: "set", subject: "KUBE-CLUSTER-IP" });
    assert.deepEqual(guard.storms, []);
  });
});

describe("a repair that others undo", () => {
  const address = ip("10.96.0.10");
  const server = { protocol: "TCP", address, port: 80 } as const;
  const realServer: RealServer = {
    address: ip("10.244.2.11"),
    port: 8080,
    weight: 1,
    forwardingMethod: 0,
  };
  const entry = { kind: "remove", address } as const;
  let bench: Bench;
  let kernel: FakeKernel;

  beforeEach(async () => {
    bench = new Bench();
    ({ kernel } = bench);
    bench.put(serviceRecord(), [endpointRecord("10.244.2.11"), endpointRecord("10.244.2.12")]);
    await bench.sync();
  });

  /** Does something `times` times, each after a sync; gives the last sync's report and writes. */
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
      { kind: "update-real-server", virtualServer: server, realServer: change },
    ]);
  }

  const attacks: readonly [name: string, attack: () => unknown, thing: string][] = [
    ["an address", () => kernel.link.apply([entry]), "address 10.96.0.10"],
    ["the link", () => kernel.link.remove(), "link kube-ipvs0"],
    ["a weight", takeWeight, "real-server TCP 10.96.0.10:80 -> 10.244.2.11:8080"],
    [
      "a virtual server",
      () => kernel.ipvs.apply([{ kind: "remove-virtual-server", virtualServer: server }]),
      "virtual-server TCP 10.96.0.10:80",
    ],
    [
      "a jump",
      () => kernel.iptables.table("IPv4", "filter").remove("INPUT", /KUBE-IPVS-FILTER/),
      "chain IPv4 filter INPUT",
    ],
  ];
  for (const [name, attack, storm] of attacks) {
    it(`waits after the fourth time, is told, and comes when the pause is over: ${name}`, async () => {
      assert.ok((await fight(4, attack)).writes.length > 0);
      const { report, writes } = await fight(1, attack);
      assert.deepEqual(writes, []);
      assert.deepEqual(
        report.drifts.map(({ action }) => action),
        ["hold"],
      );
      assert.deepEqual(report.storms.map(thingOf), [storm]);
      const again = await fight(1, () => undefined);
      assert.deepEqual([again.writes, again.report.drifts], [[], []]);
      await bench.clock.advance(30 * secondMs);
      assert.ok((await fight(1, () => undefined)).writes.length > 0);
      assert.deepEqual((await bench.sync(true)).drifts, []);
    });
  }

  it("does not delay other repairs, not even in the same virtual server", async () => {
    await fight(5, takeWeight);
    const second = { ...realServer, address: ip("10.244.2.12") };
    const { writes, report } = await fight(1, () => {
      return kernel.ipvs.apply([
        { kind: "remove-real-server", virtualServer: server, realServer: second },
      ]);
    });
    assert.deepEqual(writes, ["ipvs create-real-server TCP 10.96.0.10:80 -> 10.244.2.12:8080"]);
    assert.deepEqual(
      report.drifts.map(({ action }) => action),
      ["repair"],
    );
    assert.deepEqual((await bench.sync(true)).drifts, []);
  });

  it("does not delay what the cluster wants anew", async () => {
    await fight(5, takeWeight);
    bench.put(serviceRecord(), [endpointRecord("10.244.2.11")]);
    const { writes } = await fight(1, () => undefined);
    assert.ok(writes.includes("ipvs update-real-server TCP 10.96.0.10:80 -> 10.244.2.11:8080"));
  });

  it("is no reason to look at everything each time somebody touches the address", async () => {
    await fight(5, () => kernel.link.apply([entry]));
    bench.reconciler.noteBound([address]);
    bench.reconciler.noteBound([]);
    assert.equal(bench.reconciler.needsObservation, false);
    bench.reconciler.noteBound([ip("10.9.9.9")]);
    assert.equal(bench.reconciler.needsObservation, true);
  });
});
