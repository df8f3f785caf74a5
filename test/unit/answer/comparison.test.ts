import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiVersion } from "../../../src/answer/answers.ts";
import { differencesBetween, type NodeServices } from "../../../src/answer/comparison.ts";
import type { EndpointRow, ServiceRow } from "../../../src/answer/rows.ts";

const time = "2026-01-02T03:04:05.000Z";

function endpointRow(last: number, more: Partial<EndpointRow> = {}): EndpointRow {
  return { address: `10.244.1.${last}`, port: 8_080, ready: true, ...more };
}

function rowOf(more: Partial<ServiceRow> = {}): ServiceRow {
  return {
    ...{ namespace: "shop", name: "web", portName: "http", type: "ClusterIP" },
    ...{ frontend: "cluster-ip", protocol: "TCP", address: "10.96.0.10", port: 80 },
    ...{ scheduler: "rr", affinitySeconds: 0, trafficPolicy: "Cluster" },
    realServers: { planned: 2, programmed: 2, draining: 0 },
    endpoints: [endpointRow(1), endpointRow(2)],
    ...more,
  };
}

function nodeOf(items: readonly ServiceRow[], more: Partial<NodeServices> = {}): NodeServices {
  const nothing = { problems: [], history: [] };
  return { apiVersion, kind: "NodeServices", time, items, ...nothing, ...more };
}

/** The differences of n3 from n1 and n2, and between n1 and n2. */
function differences(third: NodeServices, row: ServiceRow = rowOf()): readonly string[] {
  const nodes = new Map([
    ["n1", nodeOf([row])],
    ["n2", nodeOf([row])],
    ["n3", third],
  ]);
  return differencesBetween(nodes).map(({ node, difference }) => `${node} ${difference}`);
}

describe("a comparison of nodes", () => {
  it("finds nothing if all nodes serve the same", () => {
    assert.deepEqual(differences(nodeOf([rowOf()])), []);
  });

  it("names the objects that one node lacks and those that only it has", () => {
    const reason = "drifted";
    const endpoints = [endpointRow(1), endpointRow(3)];
    const cases: readonly (readonly [Partial<ServiceRow>, string])[] = [
      [{ scheduler: "wlc" }, "lacks scheduler rr; has scheduler wlc"],
      [{ affinitySeconds: 5 }, "lacks session affinity of 0 s; has session affinity of 5 s"],
      [{ reason: "EINVAL" }, "has reason EINVAL"],
      [
        { endpoints: [endpointRow(1), endpointRow(2, { reason })] },
        "lacks endpoint in use 10.244.1.2:8080",
      ],
      [
        { endpoints },
        "lacks ready endpoint 10.244.1.2:8080; lacks endpoint in use 10.244.1.2:8080; " +
          "has ready endpoint 10.244.1.3:8080; has endpoint in use 10.244.1.3:8080",
      ],
    ];
    for (const [change, text] of cases)
      assert.deepEqual(differences(nodeOf([rowOf(change)])), [`n3 ${text}`]);
  });

  it("names a frontend that one node lacks, or that only one node has", () => {
    assert.deepEqual(differences(nodeOf([])), ["n3 lacks this frontend"]);
    const other = rowOf({ address: "10.96.0.11" });
    assert.deepEqual(differences(nodeOf([rowOf(), other])), ["n3 has this frontend"]);
  });

  it("ignores fields that always differ between nodes", () => {
    const local = [endpointRow(1), endpointRow(2, { reason: "other-node" })];
    const policy = { trafficPolicy: "Local" } as const;
    assert.deepEqual(
      differences(nodeOf([rowOf({ ...policy, endpoints: local })]), rowOf(policy)),
      [],
    );
    const hinted = [endpointRow(1, { zoneHints: ["a"] }), endpointRow(2, { zoneHints: ["b"] })];
    const zoned = hinted.map((one, index) =>
      index === 0 ? { ...one, reason: "other-zone" } : one,
    );
    assert.deepEqual(
      differences(nodeOf([rowOf({ endpoints: zoned })]), rowOf({ endpoints: hinted })),
      [],
    );
    const racked = [endpointRow(1), endpointRow(2, { reason: "not-preferred" })];
    assert.deepEqual(
      differences(
        nodeOf([rowOf({ topologyPreference: "applied", endpoints: racked })]),
        rowOf({ topologyPreference: "overflow" }),
      ),
      [],
    );
    const nodePort = { frontend: "node-port", port: 30_080 } as const;
    const [there, here] = ["192.168.1.1", "192.168.1.2"];
    assert.deepEqual(
      differences(
        nodeOf([rowOf({ ...nodePort, address: here })]),
        rowOf({ ...nodePort, address: there }),
      ),
      [],
    );
  });

  it("shows since when a node differs, from its history or else from its problems", () => {
    const problems = [
      { reason: "drift", message: "short", sinceSeconds: 5 },
      { reason: "api-server-unreachable", message: "API server does not answer", sinceSeconds: 65 },
    ] as const;
    const subject = "TCP 10.96.0.10:80 -> 10.244.1.2:8080";
    const event = {
      time: "2026-01-02T03:00:00.000Z",
      event: "rejected",
      subject,
      detail: "",
    } as const;
    const other = { ...event, subject: "TCP 10.96.0.10:8080", time };
    const sinceOf = (more: Partial<NodeServices>): readonly unknown[] => {
      const nodes = new Map([
        ["n1", nodeOf([rowOf()])],
        ["n2", nodeOf([rowOf()])],
        ["n3", nodeOf([], more)],
      ]);
      return differencesBetween(nodes).map(({ since, cause }) => [since, cause]);
    };
    assert.deepEqual(sinceOf({ problems, history: [event, other] }), [
      [event.time, `rejected: ${subject}`],
    ]);
    assert.deepEqual(sinceOf({ problems, history: [other] }), [
      ["2026-01-02T03:03:00.000Z", "API server does not answer"],
    ]);
    assert.deepEqual(sinceOf({}), [[undefined, undefined]]);
  });
});
