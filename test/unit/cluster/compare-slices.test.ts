import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { differencesOf, type EndpointSlice } from "../../cluster/compare-slices.ts";
import { randomObjects } from "../../cluster/random-endpoints.ts";

function slice(name: string, ...addresses: readonly string[]): EndpointSlice {
  return {
    metadata: { name, labels: { "kubernetes.io/service-name": "web" } },
    addressType: "IPv4",
    ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    endpoints: addresses.map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
    })),
  };
}

describe("differencesOf", () => {
  it("ignores slice names, and how endpoints are divided among slices", () => {
    const together = [slice("a", "10.0.0.1", "10.0.0.2")];
    const apart = [slice("b", "10.0.0.2"), slice("c", "10.0.0.1")];
    assert.deepEqual(differencesOf(together, apart), []);
  });

  it("shows endpoints that only one side has, and different conditions", () => {
    const [first] = slice("a", "10.0.0.1").endpoints ?? [];
    const notReady = { ...slice("a"), endpoints: [{ ...first, conditions: { serving: true } }] };
    const differences = differencesOf([slice("a", "10.0.0.1")], [notReady as EndpointSlice]);
    assert.deepEqual(
      differences.map((line) => line[0]),
      ["-", "+"],
    );
  });

  it("distinguishes a Service without endpoints from one without slices", () => {
    assert.equal(differencesOf([slice("a")], []).length, 1);
  });
});

describe("randomObjects", () => {
  it("are the same for the same seed", () => {
    assert.deepEqual(randomObjects(7, 20), randomObjects(7, 20));
    assert.notDeepEqual(randomObjects(7, 20), randomObjects(8, 20));
  });
});
