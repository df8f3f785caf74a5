import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Protocol } from "../../../src/base/protocol.ts";
import {
  type Drain,
  type DrainEnd,
  Drains,
  drainEnd,
} from "../../../src/reconcile/drain/drains.ts";
import type { ObservedRealServer } from "../../../src/state/real-server.ts";
import { virtualServerKey } from "../../../src/state/virtual-server.ts";
import { ip } from "../../support/records.ts";

const realServer = {
  address: ip("10.244.1.5"),
  port: 8080,
  weight: 0,
  forwardingMethod: 0,
};

function drain(protocol: Protocol, sinceMs = 0, address = "10.244.1.5"): Drain {
  const virtualServer = { protocol, address: ip("10.96.0.10"), port: 80 };
  return {
    virtualServerKey: virtualServerKey(virtualServer),
    virtualServer,
    realServer: { ...realServer, address: ip(address) },
    sinceMs,
  };
}

function withConnections(active: number, inactive: number, weight = 0): ObservedRealServer {
  return {
    ...realServer,
    weight,
    activeConnections: active,
    inactiveConnections: inactive,
    persistentConnections: 3,
  };
}

const limits = { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 300 };
const unlimited = { tcpDeadlineSeconds: 0, udpDeadlineSeconds: 0 };

interface Case {
  readonly name: string;
  readonly protocol: Protocol;
  readonly observed: ObservedRealServer | undefined;
  readonly elapsedSeconds: number;
  readonly isServing?: boolean;
  readonly policy?: typeof limits;
  readonly end: DrainEnd | undefined;
}

const cases: readonly Case[] = [
  {
    name: "continues while there is an active connection",
    protocol: "TCP",
    observed: withConnections(1, 0),
    elapsedSeconds: 899,
    end: undefined,
  },
  {
    name: "continues while a connection is closing",
    protocol: "TCP",
    observed: withConnections(0, 1),
    elapsedSeconds: 899,
    end: undefined,
  },
  {
    name: "ends without connections, regardless of persistence",
    protocol: "TCP",
    observed: withConnections(0, 0),
    elapsedSeconds: 0,
    end: "idle",
  },
  {
    name: "ends at the deadline",
    protocol: "TCP",
    observed: withConnections(5, 0),
    elapsedSeconds: 900,
    end: "deadline",
  },
  {
    name: "treats SCTP as TCP",
    protocol: "SCTP",
    observed: withConnections(5, 0),
    elapsedSeconds: 900,
    end: "deadline",
  },
  {
    name: "has no deadline with 0",
    protocol: "TCP",
    observed: withConnections(5, 0),
    elapsedSeconds: 1e9,
    end: undefined,
    policy: unlimited,
  },
  {
    name: "ends if a third party removed the real server",
    protocol: "TCP",
    observed: undefined,
    elapsedSeconds: 1,
    end: "removed-by-third-party",
  },
  {
    name: "does not change a real server to which a third party gave weight",
    protocol: "TCP",
    observed: withConnections(0, 0, 1),
    elapsedSeconds: 901,
    end: undefined,
  },
  {
    name: "keeps UDP flows to an endpoint that still serves",
    protocol: "UDP",
    observed: withConnections(0, 1),
    elapsedSeconds: 299,
    end: undefined,
    isServing: true,
  },
  {
    name: "ends them at the UDP deadline",
    protocol: "UDP",
    observed: withConnections(0, 1),
    elapsedSeconds: 300,
    end: "deadline",
    isServing: true,
  },
  {
    name: "waits for answers from a removed UDP endpoint",
    protocol: "UDP",
    observed: withConnections(0, 1),
    elapsedSeconds: 1.9,
    end: undefined,
  },
  {
    name: "then moves its flows to other endpoints",
    protocol: "UDP",
    observed: withConnections(0, 1),
    elapsedSeconds: 2,
    end: "not-serving",
  },
  {
    name: "ends when the UDP entries have timed out",
    protocol: "UDP",
    observed: withConnections(0, 0),
    elapsedSeconds: 1,
    end: "idle",
    isServing: true,
  },
  {
    name: "has no deadline while a ready endpoint is only not preferred",
    protocol: "TCP",
    observed: withConnections(1, 0),
    elapsedSeconds: 10_000,
    isServing: true,
    end: undefined,
  },
  {
    name: "never keeps UDP indefinitely",
    protocol: "UDP",
    observed: withConnections(0, 1),
    elapsedSeconds: 0,
    end: "deadline",
    isServing: true,
    policy: unlimited,
  },
];

describe("drainEnd", () => {
  for (const { name, protocol, observed, elapsedSeconds, isServing, policy, end } of cases) {
    it(`${name} (${protocol})`, () => {
      const view = { observed, isServing: isServing ?? false, nowMs: elapsedSeconds * 1000 };
      assert.equal(drainEnd(drain(protocol), view, policy ?? limits), end);
    });
  }

  it("counts from a time before the start of the program", () => {
    const view = { observed: withConnections(1, 0), isServing: false, nowMs: 1_000 };
    assert.equal(drainEnd(drain("TCP", -898_999), view, limits), undefined);
    assert.equal(drainEnd(drain("TCP", -899_000), view, limits), "deadline");
  });
});

describe("Drains", () => {
  it("finds, counts and groups draining real servers", () => {
    const drains = new Drains();
    const [first, second, other] = [
      drain("TCP", 50),
      drain("TCP", -20, "10.244.1.6"),
      drain("UDP", 30),
    ];
    for (const each of [first, second, other, first]) drains.begin(each);
    assert.equal(drains.size, 3);
    assert.equal(drains.oldestSinceMs, -20);
    assert.deepEqual(drains.virtualServerKeys(), ["TCP 10.96.0.10:80", "UDP 10.96.0.10:80"]);
    assert.deepEqual(drains.of(first.virtualServerKey), [first, second]);
    assert.equal(drains.find(first.virtualServerKey, realServer), first);
    for (const each of [first, second, first]) drains.end(each);
    assert.equal(drains.size, 1);
    assert.deepEqual(drains.of(first.virtualServerKey), []);
    assert.deepEqual([...drains.all()], [other]);
    drains.end(other);
    assert.equal(drains.oldestSinceMs, undefined);
  });
});
