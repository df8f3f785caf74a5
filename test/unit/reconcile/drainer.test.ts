import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { EndpointRecord } from "../../../src/api/objects.ts";
import { errno } from "../../../src/base/errno.ts";
import type { Drain, DrainStartTimes } from "../../../src/reconcile/drain/drains.ts";
import { drainKey } from "../../../src/reconcile/drain/drains.ts";
import type { Flow } from "../../../src/state/flow.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import type { Operation } from "../../support/fake-kernel/operations.ts";
import { ipvsText } from "../../support/fake-kernel/state-text.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";
import {
  endpointRecord,
  ip,
  localEndpoint,
  portRecord,
  serviceRecord,
} from "../../support/records.ts";

const drain = { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 300 };

/** Records start times and returns those of an earlier run. */
class RecordedTimes implements DrainStartTimes {
  readonly earlier: ReadonlyMap<string, number>;
  readonly whyUnknown: string | undefined;
  kept: readonly string[] | undefined;

  constructor(earlier: ReadonlyMap<string, number> = new Map(), whyUnknown?: string) {
    this.earlier = earlier;
    this.whyUnknown = whyUnknown;
  }

  recall(key: string): number | undefined {
    return this.earlier.get(key);
  }

  keep(drains: Iterable<Drain>): void {
    this.kept = [...drains].map((each) => `${drainKey(each)} since ${each.sinceMs}`);
  }
}

function benchOn(kernel: FakeKernel, ages = new RecordedTimes()): Bench & { lines(): string[] } {
  const log = new RecordingLogger();
  const bench = new Bench(kernel, { drain }, { log, drainStartTimes: ages });
  const lines = (): string[] =>
    log.lines.splice(0).map(({ level, event, keys }) => {
      const rest = Object.entries(keys).map(([key, value]) => `${key}=${String(value)}`);
      return [level, event, ...rest].join(" ");
    });
  return Object.assign(bench, { lines });
}

const a = serviceRecord();
const here = localEndpoint("10.244.1.10");
const there = endpointRecord("10.244.2.11");
const server = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
const leaving = { address: ip("10.244.2.11"), port: 8080 };
const leavingKey = "TCP 10.96.0.10:80 -> 10.244.2.11:8080";
const subject = "virtualServer=TCP 10.96.0.10:80 realServer=10.244.2.11:8080";

describe("a drain", () => {
  let bench: ReturnType<typeof benchOn>;
  let ages: RecordedTimes;

  beforeEach(async () => {
    ages = new RecordedTimes();
    bench = benchOn(new FakeKernel(), ages);
    bench.put(a, [there, here]);
    await bench.sync();
    bench.kernel.ipvs.setConnections(server, leaving, { active: 1 });
    bench.put(a, [here]);
    await bench.sync();
    bench.kernel.operations.clear();
  });

  it("keeps the real server at weight 0 until its connections end", async () => {
    await bench.checkDrains();
    assert.deepEqual(bench.kernel.operations.texts(), []);
    assert.match(ipvsText(bench.kernel), /10\.244\.2\.11:8080 -m -w 0/);
    bench.kernel.ipvs.setConnections(server, leaving, { persistent: 7 });
    await bench.clock.advance(3_000);
    await bench.checkDrains();
    assert.deepEqual(bench.kernel.operations.texts(), [`ipvs real-server-remove ${leavingKey}`]);
    assert.equal(bench.reconciler.needsDrainCheck, false);
  });

  it("continues while its connections cannot be counted, which is reported as a failure", async () => {
    bench.kernel.ipvs.setConnections(server, leaving, {});
    const isCount = ({ action }: Operation): boolean => action === "list-real-servers";
    const heal = bench.kernel.operations.failWhere(isCount, errno.EBUSY);
    const { failures, changes } = await bench.checkDrains();
    assert.deepEqual(
      [failures.map(({ kind }) => kind), changes.size, bench.kernel.operations.texts()],
      [["observe"], 0, []],
    );
    heal();
    assert.deepEqual((await bench.checkDrains()).failures, []);
    assert.deepEqual(bench.kernel.operations.texts(), [`ipvs real-server-remove ${leavingKey}`]);
  });

  it("is reported when it begins and when it ends, with the reasons", async () => {
    assert.deepEqual(bench.lines(), [
      `info Real server draining ${subject} reason=endpoint-removed`,
    ]);
    bench.kernel.ipvs.setConnections(server, leaving, {});
    await bench.clock.advance(3_000);
    await bench.checkDrains();
    assert.deepEqual(bench.lines(), [
      `info Real server drain ended ${subject} reason=idle elapsedSeconds=3`,
    ]);
  });

  it("ends at the deadline", async () => {
    await bench.clock.advance(899_000);
    await bench.checkDrains();
    assert.equal(bench.reconciler.drainer.count, 1);
    assert.equal(bench.reconciler.drainer.oldestAgeSeconds, 899);
    bench.lines();
    await bench.clock.advance(1_000);
    await bench.checkDrains();
    assert.equal(bench.reconciler.drainer.count, 0);
    assert.match(bench.lines().join(), /reason=deadline elapsedSeconds=900$/);
  });

  describe("a drain whose removal is rejected", () => {
    const noSuch = (): void => {};
    let allow = noSuch;

    beforeEach(async () => {
      await bench.clock.advance(900_000);
      bench.lines();
      allow = bench.kernel.operations.failWhere(
        ({ action }) => action === "real-server-remove",
        errno.EBUSY,
      );
    });

    /** Returns the seconds at which the removal is attempted. */
    async function attemptsIn(seconds: number): Promise<readonly number[]> {
      const attempts: number[] = [];
      for (let second = 1; second <= seconds; second += 1) {
        await bench.clock.advance(1_000);
        const { rejected } = await bench.checkDrains();
        if (rejected.length > 0) attempts.push(second);
      }
      return attempts;
    }

    it("continues with its age, and is not a failure", async () => {
      const report = await bench.checkDrains();
      assert.deepEqual(report.failures, []);
      assert.deepEqual(
        report.rejected.map(({ change }) => change.kind),
        ["real-server-remove"],
      );
      assert.equal(bench.reconciler.needsObservation, false);
      assert.equal(bench.reconciler.drainer.oldestAgeSeconds, 900);
    });

    it("is retried after 1, 2, 4 … seconds, and finally every five minutes", async () => {
      await bench.checkDrains();
      const attempts = await attemptsIn(1_200);
      assert.deepEqual(attempts, [1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111]);
    });

    it("is reported when it begins and when it ends, with its Service", async () => {
      const { rejections } = await bench.checkDrains();
      assert.deepEqual(
        rejections.map(({ kind, reason, services }) => [kind, reason, services]),
        [["real-server-remove", "EBUSY", ["default/a"]]],
      );
      await bench.clock.advance(1_000);
      assert.equal((await bench.checkDrains()).rejections.length, 1);
      assert.equal((await bench.sync()).rejections.length, 1);
      allow();
      const before = (await bench.checkDrains()).rejections;
      assert.deepEqual(
        before.map(({ attempts }) => attempts),
        [2],
      );
      await bench.clock.advance(2_000);
      assert.deepEqual((await bench.checkDrains()).rejections, []);
      assert.equal(bench.reconciler.drainer.count, 0);
      assert.doesNotMatch(ipvsText(bench.kernel), /10\.244\.2\.11/);
    });

    it("does not delay other drains of its virtual server", async () => {
      await bench.checkDrains();
      allow();
      bench.put(a, [endpointRecord("10.244.3.12")]);
      await bench.clock.advance(500);
      await bench.sync();
      assert.doesNotMatch(ipvsText(bench.kernel), /10\.244\.1\.10/);
    });

    it("is retried immediately when its Service changes", async () => {
      await bench.checkDrains();
      await attemptsIn(20);
      allow();
      bench.put(a, [here, endpointRecord("10.244.3.12")]);
      await bench.sync();
      await bench.checkDrains();
      assert.equal(bench.reconciler.drainer.count, 0);
    });

    it("is no longer reported as rejected if the endpoint returns", async () => {
      await bench.checkDrains();
      bench.put(a, [here, there]);
      assert.deepEqual((await bench.sync()).rejections, []);
    });
  });

  it("continues with its age if the reply to the removal is lost, and is observed", async () => {
    await bench.clock.advance(900_000);
    bench.kernel.operations.loseReplyWhere(({ action }) => action === "real-server-remove");
    assert.equal((await bench.checkDrains()).failures.length, 1);
    assert.equal(bench.reconciler.needsObservation, true);
    assert.equal(bench.reconciler.drainer.oldestAgeSeconds, 900);
    assert.deepEqual((await bench.sync()).drifts, []);
    await bench.checkDrains();
    assert.equal(bench.reconciler.drainer.count, 0);
    assert.doesNotMatch(ipvsText(bench.kernel), /10\.244\.2\.11/);
  });

  it("ends if a third party removed the real server", async () => {
    const realServer = { ...leaving, weight: 0, forwardingMethod: 0 };
    await bench.kernel.ipvs.apply([
      { kind: "real-server-remove", virtualServer: server, before: realServer },
    ]);
    bench.lines();
    await bench.checkDrains();
    assert.equal(bench.reconciler.drainer.count, 0);
    assert.match(bench.lines().join(), /reason=removed-by-third-party/);
  });

  it("restores the weight if the endpoint returns", async () => {
    bench.lines();
    bench.put(a, [there, here]);
    assert.deepEqual(await bench.writes(), [`ipvs real-server-update ${leavingKey}`]);
    assert.match(ipvsText(bench.kernel), /10\.244\.2\.11:8080 -m -w 1/);
    assert.match(bench.lines().join(), /reason=wanted-again/);
    await bench.clock.advance(1e6);
    await bench.checkDrains();
    assert.match(ipvsText(bench.kernel), /10\.244\.2\.11:8080 -m -w 1/);
  });

  it("ends if a third party restored the weight and the endpoint returns", async () => {
    const realServer = { ...leaving, weight: 1, forwardingMethod: 0 };
    await bench.kernel.ipvs.apply([
      { kind: "real-server-update", virtualServer: server, after: realServer },
    ]);
    bench.put(a, [there, here]);
    await bench.sync(true);
    assert.equal(bench.reconciler.drainer.count, 0);
  });

  it("ends with its virtual server, and does not affect a new one at the same address", async () => {
    bench.drop(a.name);
    await bench.sync();
    assert.equal(bench.reconciler.drainer.count, 0);
    assert.match(bench.lines().join(), /reason=virtual-server-removed/);
    bench.put(a, [there, here]);
    await bench.sync();
    bench.kernel.operations.clear();
    await bench.clock.advance(1e6);
    await bench.checkDrains();
    await bench.sync(true);
    assert.deepEqual(bench.kernel.operations.texts(), []);
    assert.match(ipvsText(bench.kernel), /10\.244\.2\.11:8080 -m -w 1/);
  });

  it("continues if its virtual server changes otherwise", async () => {
    await bench.clock.advance(10_000);
    bench.put(a, [here, endpointRecord("10.244.2.12")]);
    await bench.sync();
    await bench.sync(true);
    assert.equal(bench.reconciler.drainer.oldestAgeSeconds, 10);
    assert.equal(bench.lines().length, 1);
  });

  it("reads only virtual servers that have one", async () => {
    bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    await bench.sync();
    const asked: number[] = [];
    const { listRealServers } = bench.kernel.ipvs;
    bench.kernel.ipvs.listRealServers = (ids) => {
      asked.push(ids.length);
      return listRealServers.call(bench.kernel.ipvs, ids);
    };
    bench.kernel.operations.failWhere(({ action }) => action === "observe", errno.EPERM);
    assert.deepEqual((await bench.checkDrains()).failures, []);
    assert.deepEqual(asked, [1]);
  });

  it("is recorded when it begins, and removed from the record when it ends", async () => {
    assert.deepEqual(ages.kept, [`${leavingKey} since 0`]);
    ages.kept = undefined;
    await bench.checkDrains();
    assert.equal(ages.kept, undefined);
    bench.kernel.ipvs.setConnections(server, leaving, {});
    await bench.checkDrains();
    assert.deepEqual(ages.kept, []);
  });

  describe("after a restart", () => {
    it("continues without a write, with the recorded age", async () => {
      const noted = new RecordedTimes(new Map([[leavingKey, -600_000]]));
      const restarted = benchOn(bench.kernel, noted);
      restarted.put(a, [here]);
      assert.deepEqual(await restarted.writes(), []);
      assert.equal(restarted.reconciler.drainer.oldestAgeSeconds, 600);
      assert.deepEqual(noted.kept, [`${leavingKey} since -600000`]);
      assert.deepEqual(restarted.lines(), [
        `info Real server draining ${subject} reason=found-draining`,
      ]);
      await restarted.clock.advance(300_000);
      await restarted.checkDrains();
      assert.equal(restarted.reconciler.drainer.count, 0);
    });

    it("starts now if no age was recorded, and logs this once", async () => {
      const restarted = benchOn(bench.kernel, new RecordedTimes(new Map(), "there is no file"));
      restarted.put(a, [here]);
      await restarted.sync();
      assert.equal(restarted.reconciler.drainer.oldestAgeSeconds, 0);
      assert.deepEqual(restarted.lines().slice(1), [
        "info Drain start unknown, restarting its deadline count=1 reason=there is no file",
      ]);
      await restarted.sync(true);
      assert.deepEqual(restarted.lines(), []);
    });

    it("ends if the endpoint has returned", async () => {
      const restarted = benchOn(bench.kernel);
      restarted.put(a, [here, there]);
      await restarted.sync();
      assert.equal(restarted.reconciler.drainer.count, 0);
      assert.match(ipvsText(bench.kernel), /10\.244\.2\.11:8080 -m -w 1/);
    });

    it("does not inherit the age of the same real server's earlier drain", async () => {
      const restarted = benchOn(bench.kernel, new RecordedTimes(new Map([[leavingKey, -600_000]])));
      restarted.put(a, [here, there]);
      await restarted.sync();
      restarted.put(a, [here]);
      await restarted.sync();
      assert.equal(restarted.reconciler.drainer.oldestAgeSeconds, 0);
      assert.equal(restarted.reconciler.drainer.count, 1);
    });

    it("starts now if the real server was planned with weight 0, regardless of the record", async () => {
      const restarted = benchOn(bench.kernel, new RecordedTimes(new Map([[leavingKey, -900_000]])));
      restarted.put(a, [here, there]);
      await restarted.sync();
      await bench.kernel.ipvs.apply([
        {
          kind: "real-server-update",
          virtualServer: server,
          after: { ...leaving, weight: 0, forwardingMethod: 0 },
        },
      ]);
      await restarted.verify();
      await restarted.sync();
      restarted.lines();
      restarted.put(a, [here]);
      await restarted.sync();
      assert.equal(restarted.reconciler.drainer.count, 1);
      assert.equal(restarted.reconciler.drainer.oldestAgeSeconds, 0);
      assert.deepEqual(restarted.lines(), [
        `info Real server draining ${subject} reason=endpoint-removed`,
      ]);
    });
  });
});

describe("a real server without connections", () => {
  it("is deleted in the same sync, without a log line", async () => {
    const bench = benchOn(new FakeKernel());
    bench.put(a, [there, here]);
    await bench.sync();
    bench.put(a, [here]);
    assert.deepEqual(await bench.writes(), [
      `ipvs real-server-update ${leavingKey}`,
      `ipvs real-server-remove ${leavingKey}`,
    ]);
    assert.deepEqual(bench.lines(), []);
  });
});

it("drains are checked in groups if there are very many", async () => {
  const bench = benchOn(new FakeKernel());
  const addressOf = (index: number) => ip(`10.96.${1 + Math.floor(index / 250)}.${index % 250}`);
  const indices = Array.from({ length: 2_100 }, (_, index) => index);
  const serviceOf = (index: number) =>
    serviceRecord({ name: `default/s${index}`, clusterIps: [addressOf(index)] });
  for (const index of indices) bench.put(serviceOf(index), [there]);
  await bench.sync();
  for (const index of indices) {
    const address = addressOf(index);
    bench.kernel.ipvs.setConnections({ ...server, address }, leaving, { active: 1 });
    bench.put(serviceOf(index), []);
  }
  await bench.sync();
  await bench.clock.advance(900_000);
  const counts: number[] = [];
  for (let look = 0; look < 3; look++) {
    await bench.checkDrains();
    counts.push(bench.reconciler.drainer.count);
  }
  assert.deepEqual(counts, [1_100, 100, 0]);
});

describe("a drain of UDP", () => {
  const dns = serviceRecord({
    ports: [portRecord({ name: "dns", protocol: "UDP", port: 53 })],
  });
  const ports = [{ name: "dns", protocol: "UDP", port: 5353 }] as const;
  const dnsServer = { protocol: "UDP", address: ip("10.96.0.10"), port: 53 } as const;
  const dnsLeaving = { address: ip("10.244.2.11"), port: 5353 };
  const flow: Flow = {
    protocol: "UDP",
    source: ip("192.0.2.1"),
    sourcePort: 4000,
    destination: ip("10.96.0.10"),
    destinationPort: 53,
    replySource: ip("10.244.2.11"),
    replySourcePort: 5353,
  };
  const flowRemoval = "conntrack remove UDP 192.0.2.1:4000 -> 10.96.0.10:53 (10.244.2.11:5353)";
  const removal = "ipvs real-server-remove UDP 10.96.0.10:53 -> 10.244.2.11:5353";

  async function draining(endpoints: readonly EndpointRecord[]): Promise<Bench> {
    const bench = new Bench(new FakeKernel(), { drain });
    bench.put(dns, [there, here], { ports });
    await bench.sync();
    bench.kernel.ipvs.setConnections(dnsServer, dnsLeaving, { inactive: 1 });
    bench.kernel.conntrack.flows = [
      flow,
      { ...flow, sourcePort: 4001, replySource: ip("10.244.1.10") },
    ];
    bench.put(dns, endpoints, { ports });
    await bench.sync();
    bench.kernel.operations.clear();
    return bench;
  }

  const terminating = endpointRecord("10.244.2.11", {
    isReady: false,
    isServing: true,
    isTerminating: true,
  });

  it("keeps flows to a terminating endpoint that still serves, up to its deadline", async () => {
    const bench = await draining([here, terminating]);
    await bench.clock.advance(299_000);
    await bench.checkDrains();
    assert.deepEqual(bench.kernel.operations.texts(), []);
    await bench.clock.advance(1_000);
    await bench.checkDrains();
    assert.deepEqual(bench.kernel.operations.texts(), [removal, flowRemoval]);
  });

  it("ends as soon as the endpoint no longer serves", async () => {
    const bench = await draining([here, terminating]);
    await bench.clock.advance(10_000);
    bench.put(dns, [here], { ports });
    assert.deepEqual(await bench.writes(), []);
    await bench.checkDrains();
    assert.deepEqual(bench.kernel.operations.texts(), [removal, flowRemoval]);
    assert.equal(bench.kernel.conntrack.flows.length, 1);
  });

  for (const { name, endpoints } of [
    { name: "that is gone", endpoints: [here] },
    {
      name: "that exists and does not serve",
      endpoints: [here, endpointRecord("10.244.2.11", { isReady: false, isServing: false })],
    },
  ]) {
    it(`gives an endpoint ${name} two seconds for its answers`, async () => {
      const bench = await draining(endpoints);
      await bench.clock.advance(1_000);
      await bench.checkDrains();
      assert.equal(bench.reconciler.drainer.count, 1);
      await bench.clock.advance(1_000);
      await bench.checkDrains();
      assert.deepEqual(bench.kernel.operations.texts(), [removal, flowRemoval]);
    });
  }

  it("retries the deletion of flows that could not be listed", async () => {
    const bench = await draining([here]);
    await bench.clock.advance(2_000);
    bench.kernel.operations.failWhere(({ action }) => action === "list-udp-flows", errno.EPERM, 1);
    assert.deepEqual(
      (await bench.checkDrains()).failures.map(({ kind }) => kind),
      ["conntrack-delete"],
    );
    assert.equal(bench.reconciler.needsDrainCheck, true);
    await bench.checkDrains();
    assert.deepEqual(bench.kernel.operations.texts(), [removal, flowRemoval]);
    assert.equal(bench.reconciler.needsDrainCheck, false);
  });

  it("ends at its deadline if its Service sets that to 0 while other endpoints change", async () => {
    const log = new RecordingLogger();
    const bench = new Bench(new FakeKernel(), { drain }, { log });
    bench.put(dns, [there, here], { ports });
    await bench.sync();
    bench.kernel.ipvs.setConnections(dnsServer, dnsLeaving, { inactive: 1 });
    bench.kernel.conntrack.flows = [flow];
    bench.put(dns, [here, terminating], { ports });
    await bench.sync();
    const annotations = { "kube-ipvs.io/drain-deadline": "0s" };
    bench.put({ ...dns, annotations }, [endpointRecord("10.244.2.12"), terminating], { ports });
    await bench.sync();
    bench.kernel.operations.clear();
    await bench.checkDrains();
    assert.deepEqual(bench.kernel.operations.texts(), [removal, flowRemoval]);
    assert.equal(bench.reconciler.drainer.count, 0);
    assert.equal(log.lines.at(-1)?.keys["reason"], "deadline");
  });

  it("ends immediately without a deadline", async () => {
    const bench = new Bench(new FakeKernel(), {
      drain: { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 0 },
    });
    bench.put(dns, [there, here], { ports });
    await bench.sync();
    bench.kernel.conntrack.flows = [flow];
    bench.put(dns, [terminating, here], { ports });
    assert.deepEqual(await bench.writes(), [removal, flowRemoval]);
  });
});
