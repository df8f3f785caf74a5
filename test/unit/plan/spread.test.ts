/**
 * Tests that nodes begin with different endpoints. test/lab/ipvs.test.ts shows that the kernel uses them in this order.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hostPort } from "../../../src/base/ip.ts";
import type { Endpoint } from "../../../src/model/endpoints.ts";
import { spreadByNode } from "../../../src/plan/spread.ts";
import { ip } from "../../support/records.ts";

function endpoint(index: number): Endpoint {
  const address = ip(`10.244.${Math.floor(index / 250)}.${1 + (index % 250)}`);
  const conditions = { isLocal: false, isReady: true, isServing: true, isTerminating: false };
  const place = { nodeName: "", slice: "" };
  return { address, port: 8080, key: hostPort(address, 8080), ...conditions, ...place };
}

function endpoints(count: number): readonly Endpoint[] {
  return Array.from({ length: count }, (_, index) => endpoint(index));
}

const nodes = Array.from({ length: 50 }, (_, index) => `worker-${index + 1}.example.com`);

/**
 * The busiest endpoint's number of connections after a burst from each node. `rr` begins with the endpoint that was
 * created last.
 */
function busiest(
  count: number,
  burst: number,
  order: (all: readonly Endpoint[], node: string) => readonly Endpoint[],
): number {
  const connections = new Map<string, number>();
  for (const node of nodes) {
    const list = order(endpoints(count), node).toReversed();
    for (let turn = 0; turn < burst; turn += 1) {
      const key = list[turn % count]?.key ?? "";
      connections.set(key, (connections.get(key) ?? 0) + 1);
    }
  }
  return Math.max(...connections.values());
}

const keys = (list: readonly Endpoint[]): readonly string[] => list.map(({ key }) => key);

describe("bursts of 50 nodes", () => {
  const bursts = [
    { count: 10, burst: 1, even: 5, most: 12 },
    { count: 10, burst: 3, even: 15, most: 25 },
    { count: 50, burst: 2, even: 2, most: 9 },
    { count: 100, burst: 5, even: 3, most: 9 },
  ];
  for (const { count, burst, even, most } of bursts) {
    it(`of ${burst} connections to ${count} endpoints: ${even} would be even, and 50 without spreading`, (test) => {
      assert.equal(
        busiest(count, burst, (all) => all),
        50,
      );
      const figure = busiest(count, burst, spreadByNode);
      test.diagnostic(`${figure} at the busiest endpoint`);
      assert.ok(figure <= most, String(figure));
    });
  }
});

describe("the order of a node", () => {
  it("is a permutation that is the same each time", () => {
    const [all, node = ""] = [endpoints(300), nodes[0]];
    const spread = keys(spreadByNode(all, node));
    assert.deepEqual(spread.toSorted(), keys(all).toSorted());
    assert.deepEqual(keys(spreadByNode(all.toReversed(), node)), spread);
  });

  it("does not change if an endpoint is added or removed", () => {
    const [all, node = ""] = [endpoints(30), nodes[1]];
    const gone = all[7]?.key ?? "";
    assert.deepEqual(
      keys(spreadByNode(all, node)).filter((key) => key !== gone),
      keys(
        spreadByNode(
          all.filter(({ key }) => key !== gone),
          node,
        ),
      ),
    );
  });

  it("differs between nodes and endpoints whose names differ in the last digit", () => {
    const orders = nodes.map((node) => keys(spreadByNode(endpoints(5), node)).join(" "));
    assert.ok(new Set(orders).size > 35, String(new Set(orders).size));
  });
});
