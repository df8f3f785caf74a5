import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { Ejections } from "../../../../src/daemon/weights/ejections.ts";
import type { ServicePlan } from "../../../../src/plan/planner.ts";
import { realServerKey } from "../../../../src/state/real-server.ts";
import { noTraffic, type RealServerTraffic, type Traffic } from "../../../../src/state/traffic.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ip } from "../../../support/records.ts";

const service = "default/web";
const working = { connections: 10, packetsIn: 60, packetsOut: 50 };
const silent = { connections: 10, packetsIn: 30, packetsOut: 0 };

let clock: FakeClock;
let ejections: Ejections;
/** Traffic per window of each endpoint, by the last number of its address. */
let traffic: Partial<Traffic>[];
/** The endpoints to which this node cannot connect. */
let broken: Set<number>;
let tried: number[];
let changes: number;
let count: number;
/** If defined, attempts to connect wait for this result. */
let connecting: Promise<boolean> | undefined;
let isPlanned: boolean;
let kept: readonly (readonly [string, number])[];

beforeEach(() => {
  clock = new FakeClock();
  [isPlanned, connecting] = [true, undefined];
  [traffic, broken, tried, changes, count, kept] = [[], new Set(), [], 0, 0, []];
});

function start(recalled: Readonly<Record<string, number>> = {}, isReadOnly = false): void {
  const totals: Traffic[] = [];
  const rowsOf = (): readonly RealServerTraffic[] =>
    traffic.map((more, index) => {
      const before = totals[index] ?? noTraffic;
      const now = { ...before };
      for (const [field, value] of Object.entries(more)) now[field as keyof Traffic] += value;
      totals[index] = now;
      const counts = { activeConnections: 0, inactiveConnections: 0 };
      return { address: ip(`10.0.0.${index + 1}`), port: 80, weight: 1, traffic: now, ...counts };
    });
  ejections = new Ejections({
    clock,
    isReadOnly,
    isPlanned: () => isPlanned,
    log: new RecordingLogger(),
    ipvs: { listRealServerTraffic: (ids) => Promise.resolve(ids.map(rowsOf)) },
    canConnect: ({ address }) => {
      const number = Number(address.split(".").at(-1));
      tried.push(number);
      return connecting ?? Promise.resolve(!broken.has(number));
    },
    record: {
      recalled: new Map(Object.entries(recalled)),
      keep: (read) => {
        kept = read();
      },
    },
    onChange: () => {
      changes += 1;
    },
    onCount: (ejected) => {
      count = ejected;
    },
  });
  note();
}

function note(outlierEjectionMs = 30_000, protocol = "TCP"): void {
  const virtualServer = { protocol, address: ip("10.96.0.10"), port: 80 };
  const realServers = traffic.map((_, index) => ({ address: ip(`10.0.0.${index + 1}`), port: 80 }));
  const servicePorts = [{ virtualServers: [{ virtualServer, realServers }] }];
  ejections.note({
    service,
    family: "IPv4",
    outlierEjectionMs,
    servicePorts,
  } as unknown as ServicePlan);
}

function ejected(): readonly number[] {
  return traffic.flatMap((_, index) => {
    const key = realServerKey({ address: ip(`10.0.0.${index + 1}`), port: 80 });
    return ejections.isEjected(service, key) ? [index + 1] : [];
  });
}

describe("an endpoint is ejected", () => {
  it("if its new connections fail and this node cannot connect either, and is recorded", async () => {
    traffic = [working, silent, working];
    broken.add(2);
    start();
    await clock.advance(9_000);
    assert.deepEqual(ejected(), [], "the first window has no earlier statistics");
    await clock.advance(2_000);
    assert.deepEqual(ejected(), [2]);
    assert.deepEqual(tried, [1, 3, 2, 2]);
    assert.deepEqual([changes, count], [1, 1]);
    assert.deepEqual(kept, [[`${service} 10.0.0.2:80`, 1]]);
  });

  for (const [name, failing] of [
    ["silence", silent],
    ["a reset for each connection", { connections: 10, packetsIn: 10, packetsOut: 10 }],
    ["three ICMP errors for each connection", { connections: 10, packetsIn: 30, packetsOut: 30 }],
    ["few connections", { connections: 1, packetsIn: 3, packetsOut: 0 }],
  ] as const) {
    it(`if it shows ${name}`, async () => {
      traffic = [working, failing, working];
      broken.add(2);
      start();
      await clock.advance(25_000);
      assert.deepEqual(ejected(), [2]);
    });
  }

  for (const [name, one] of [
    ["answers", working],
    ["gets no connections", { packetsIn: 10 }],
  ] as const) {
    it(`never if it ${name}, without trying to connect`, async () => {
      traffic = [working, one, working];
      broken.add(2);
      start();
      await clock.advance(120_000);
      assert.deepEqual([ejected(), tried], [[], []]);
    });
  }

  it("never if this node can connect to it", async () => {
    traffic = [working, silent, working];
    start();
    await clock.advance(120_000);
    assert.deepEqual(ejected(), []);
  });

  it("never if this node cannot connect to any other endpoint, or if all endpoints are suspected", async () => {
    traffic = [working, silent, working];
    broken = new Set([1, 2, 3]);
    start();
    await clock.advance(60_000);
    assert.deepEqual(ejected(), []);
    traffic = [silent, silent, silent];
    await clock.advance(60_000);
    assert.deepEqual(ejected(), []);
  });

  it("only as long as no more than a third of the endpoints are ejected", async () => {
    for (const [size, most] of [
      [1, 0],
      [2, 0],
      [3, 1],
      [5, 1],
      [50, 16],
    ] as const) {
      traffic = Array.from({ length: size }, (_, index) => (index === 0 ? working : silent));
      broken = new Set(traffic.flatMap((_, index) => (index === 0 ? [] : [index + 1])));
      start();
      await clock.advance(25_000);
      assert.equal(ejected().length, most, `of ${size}`);
      ejections.stop();
    }
  });

  it("never for UDP, or without the annotation", async () => {
    traffic = [working, silent, working];
    broken.add(2);
    start();
    for (const [outlierEjectionMs, protocol] of [
      [30_000, "UDP"],
      [0, "TCP"],
    ] as const) {
      note(outlierEjectionMs, protocol);
      await clock.advance(60_000);
      assert.deepEqual(ejected(), []);
      assert.equal(clock.pendingTimers, 0);
    }
  });

  it("never because its counters were reset", async () => {
    traffic = [working, working, working];
    broken.add(2);
    start();
    await clock.advance(11_000);
    traffic = [working, { connections: -5, packetsOut: -20 }, working];
    await clock.advance(5_000);
    assert.deepEqual([ejected(), tried], [[], []]);
  });
});

describe("an ejected endpoint", () => {
  beforeEach(async () => {
    traffic = [working, silent, working];
    broken.add(2);
    start();
    await clock.advance(10_000);
    assert.deepEqual(ejected(), [2]);
    traffic = [working, {}, working];
    tried = [];
  });

  it("is tried again after a time that doubles, and is used again when this node can connect to it", async () => {
    await clock.advance(29_000);
    assert.deepEqual(tried, []);
    await clock.advance(6_000);
    assert.deepEqual([tried, ejected()], [[2], [2]]);
    await clock.advance(54_000);
    assert.deepEqual(tried, [2]);
    broken.clear();
    await clock.advance(10_000);
    assert.deepEqual([tried, ejected(), count, kept], [[2, 2], [], 0, []]);
    assert.equal(changes, 2);
    broken.add(2);
    traffic = [working, silent, working];
    await clock.advance(10_000);
    assert.deepEqual(kept, [[`${service} 10.0.0.2:80`, 3]], "the third time in a row");
  });

  it("never stays ejected for longer than 16 times the first duration", async () => {
    await clock.advance(3_600_000);
    const before = tried.length;
    await clock.advance(4 * 490_000);
    assert.ok(tried.length >= before + 4);
  });

  it("is forgotten if it is removed, or if the annotation is removed", async () => {
    traffic = [working];
    note();
    await clock.advance(6_000);
    assert.deepEqual([count, kept], [0, []]);
  });

  it("is forgotten if the annotation is removed while this node tries to connect to it", async () => {
    await clock.advance(26_000);
    const failing = Promise.withResolvers<boolean>();
    connecting = failing.promise;
    await clock.advance(5_000);
    note(0);
    failing.resolve(false);
    await clock.advance(6_000);
    assert.deepEqual([count, kept, clock.pendingTimers], [0, [], 0]);
  });

  it("stays ejected after a restart and is then tried", async () => {
    ejections.stop();
    start({ [`${service} 10.0.0.2:80`]: 3 });
    assert.deepEqual(ejected(), [2]);
    broken.clear();
    await clock.advance(6_000);
    assert.deepEqual(ejected(), []);
  });

  it("stays ejected after a restart until its Service is planned, however long that takes", async () => {
    ejections.stop();
    const late = realServerKey({ address: ip("10.0.9.9"), port: 80 });
    isPlanned = false;
    start({ [`default/late ${late}`]: 1 });
    await clock.advance(60_000);
    assert.equal(ejections.isEjected("default/late", late), true);
    isPlanned = true;
    await clock.advance(6_000);
    assert.equal(ejections.isEjected("default/late", late), false);
  });

  it("stays ejected in a run that only reads", async () => {
    ejections.stop();
    start({ [`${service} 10.0.0.2:80`]: 1 }, true);
    await clock.advance(600_000);
    assert.deepEqual([ejected(), tried], [[2], []]);
  });
});
