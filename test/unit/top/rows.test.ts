import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRow } from "../../../src/answer/rows.ts";
import type { TrafficFigures } from "../../../src/answer/traffic.ts";
import { labelOf } from "../../../src/answer/traffic-view.ts";
import { hostPort, parseIpAddress } from "../../../src/base/ip.ts";
import type { TrafficSample } from "../../../src/kernel/sample-traffic.ts";
import { noTraffic, type Traffic } from "../../../src/state/traffic.ts";
import {
  type ServerKey,
  toServerKey,
  type VirtualServerId,
  virtualServerKey,
} from "../../../src/state/virtual-server.ts";
import { ownersOf } from "../../../src/top/names.ts";
import { SampleHistory } from "../../../src/top/reading.ts";
import { endpointRowsOf, filtered, rowsOf, sorted, totalOf } from "../../../src/top/rows.ts";

function id(text: string, port = 80): VirtualServerId & { readonly key: ServerKey } {
  const address = parseIpAddress(text);
  assert.ok(address !== undefined);
  return {
    protocol: "TCP",
    address,
    port,
    key: virtualServerKey({ protocol: "TCP", address, port }),
  };
}

function sample(atMs: number, counted: Readonly<Record<string, Partial<Traffic>>>): TrafficSample {
  const servers = Object.entries(counted).map(([key, traffic]) => ({
    ...{
      ...id("10.96.0.1"),
      key: toServerKey(key),
      activeConnections: 1,
      inactiveConnections: 2,
      endpoints: [],
    },
    traffic: { ...noTraffic, ...traffic },
  }));
  return { atMs, isCounting: true, servers };
}

/** Connections per second in the last sample for the server with this key. */
function rateOf(history: SampleHistory, key: string): number | undefined {
  const server = history.last?.servers.find((one) => one.key === key) ?? assert.fail();
  return history.figuresOf(server).perSecond?.connections;
}

function service(row: Partial<ServiceRow>): ServiceRow {
  return {
    namespace: "shop",
    name: "web",
    type: "ClusterIP",
    frontend: "cluster-ip",
    protocol: "TCP",
    address: "10.96.0.1",
    port: 80,
    scheduler: "rr",
    affinitySeconds: 0,
    trafficPolicy: "Cluster",
    realServers: { planned: 1, programmed: 1, draining: 0 },
    ...row,
  };
}

function figures(connections: number, activeConnections = 0): TrafficFigures {
  const perSecond = { ...noTraffic, connections };
  return { activeConnections, inactiveConnections: 0, total: noTraffic, perSecond };
}

describe("rates", () => {
  it("cover the last six seconds, or less in the beginning", () => {
    const history = new SampleHistory();
    const rate = (atMs: number, connections: number): number | undefined => {
      history.add(sample(atMs, { a: { connections } }));
      return rateOf(history, "a");
    };
    assert.equal(rate(0, 10), undefined);
    assert.equal(rate(1_000, 10), undefined);
    assert.equal(rate(2_000, 30), 10);
    assert.equal(rate(4_000, 30), 5);
    assert.equal(rate(6_000, 70), 10);
    assert.equal(rate(8_000, 90), 10);
    assert.equal(rate(30_000, 310), 10);
  });

  it("of a new or recreated server start from zero", () => {
    const history = new SampleHistory();
    history.add(sample(0, { a: { connections: 1_000 } }));
    history.add(sample(2_000, { a: { connections: 4 }, b: { connections: 6 } }));
    assert.equal(rateOf(history, "a"), 2);
    assert.equal(rateOf(history, "b"), 3);
  });
});

describe("rows", () => {
  const [cluster, node, foreign] = [id("10.96.0.1"), id("192.168.1.1", 30_080), id("10.0.0.9")];

  it("sum the virtual servers of a Service port, and keep unnamed ones separate", () => {
    const owners = ownersOf([
      service({ portName: "http" }),
      service({ portName: "http", address: "192.168.1.1", port: 30_080 }),
      service({ name: "late", address: "10.0.0.9", reason: "foreign-virtual-server" }),
    ]);
    const rows = rowsOf([cluster, node, foreign], owners, () => figures(2, 3));
    assert.deepEqual(
      rows.map((row) => [
        labelOf(row),
        row.virtualServers.map(({ address, port }) => hostPort(address, port)),
        row.perSecond?.connections,
        row.activeConnections,
      ]),
      [
        ["shop/web:http TCP", ["10.96.0.1:80", "192.168.1.1:30080"], 4, 6],
        ["TCP 10.0.0.9:80", ["10.0.0.9:80"], 2, 3],
      ],
    );
    assert.equal(totalOf(rows)?.perSecond?.connections, 6);
    assert.equal(totalOf([]), undefined);
  });

  it("are found by name and address, regardless of case", () => {
    const owners = ownersOf([service({})]);
    const rows = rowsOf([cluster, foreign], owners, () => figures(1));
    assert.equal(filtered(rows, "SHOP/w").length, 1);
    assert.equal(filtered(rows, "10.0.0.9:80").length, 1);
    assert.equal(filtered(rows, "").length, 2);
    assert.equal(filtered(rows, "nothing").length, 0);
  });

  it("are in the requested order, and sorted by name if values are equal", () => {
    const rows = [
      { label: "b", weight: 1, ...figures(1, 9) },
      { label: "a", weight: 1, ...figures(1, 2) },
      { label: "c", weight: 1, ...figures(5, 0) },
    ];
    const order = (...given: [Parameters<typeof sorted>[1], boolean]): string =>
      sorted(rows, ...given)
        .map(({ label }) => label)
        .join("");
    assert.equal(order("connections", false), "cab");
    assert.equal(order("connections", true), "abc");
    assert.equal(order("active", false), "bac");
    assert.equal(order("name", false), "abc");
    assert.equal(order("name", true), "cba");
  });

  it("of endpoints sum the traffic through all virtual servers", () => {
    const address = id("10.244.1.5").address;
    const listed = { address, port: 8080, weight: 1 };
    const rows = endpointRowsOf([listed, { ...listed, weight: 0 }], () => figures(2, 1));
    assert.deepEqual(
      rows.map(({ label, weight, activeConnections }) => [label, weight, activeConnections]),
      [["10.244.1.5:8080", 1, 2]],
    );
  });
});
