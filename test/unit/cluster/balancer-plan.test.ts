import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  balancersOf,
  finalizer,
  patchOf,
  routeOf,
  type Service,
} from "../../cluster/balancer-plan.ts";

interface Changes {
  readonly metadata?: Partial<Service["metadata"]>;
  readonly spec?: Service["spec"];
  readonly ip?: string;
}

function service({ metadata, spec, ip }: Changes = {}): Service {
  return {
    metadata: { name: "web", namespace: "ns", resourceVersion: "7", ...metadata },
    spec: { type: "LoadBalancer", ipFamilies: ["IPv4"], ...spec },
    status: { loadBalancer: ip === undefined ? {} : { ingress: [{ ip }] } },
  };
}

const path = "/api/v1/namespaces/ns/services/web";
const freeAddress = (): string => "172.20.1.0";
const finalized = { finalizers: ["other", finalizer] };

describe("A Service of type LoadBalancer", () => {
  it("is given the finalizer first", () => {
    assert.deepEqual(patchOf(service({ metadata: { finalizers: ["other"] } }), freeAddress), {
      path,
      change: { metadata: { resourceVersion: "7", finalizers: ["other", finalizer] } },
    });
  });

  it("is given an address after the finalizer", () => {
    assert.deepEqual(patchOf(service({ metadata: finalized }), freeAddress), {
      path: `${path}/status`,
      change: {
        metadata: { resourceVersion: "7" },
        status: { loadBalancer: { ingress: [{ ip: "172.20.1.0" }] } },
      },
    });
  });

  it("keeps the address that another program assigned", () => {
    const assigned = service({ metadata: finalized, ip: "203.0.113.1" });
    assert.equal(patchOf(assigned, freeAddress), undefined);
    assert.deepEqual(
      balancersOf([assigned], (address) => address !== "203.0.113.1"),
      [],
    );
  });

  it("loses the finalizer when it is deleted or its type changes", () => {
    const deleted = service({
      metadata: { ...finalized, deletionTimestamp: "now" },
      ip: "1.2.3.4",
    });
    const changed = service({ metadata: finalized, spec: { type: "ClusterIP" } });
    for (const one of [deleted, changed]) {
      assert.deepEqual(patchOf(one, freeAddress), {
        path,
        change: { metadata: { resourceVersion: "7", finalizers: ["other"] } },
      });
      assert.deepEqual(
        balancersOf([one], () => true),
        [],
      );
    }
  });

  for (const spec of [{ loadBalancerClass: "example.com/lb" }, { ipFamilies: ["IPv6", "IPv4"] }]) {
    it(`is ignored with ${Object.keys(spec).join()} ${Object.values(spec).join()}`, () => {
      assert.equal(patchOf(service({ spec }), freeAddress), undefined);
    });
  }
});

describe("A load balancer", () => {
  it("checks the proxy's health, or the Service's own health-check port", () => {
    const local = service({
      ip: "1.2.3.5",
      spec: { sessionAffinity: "ClientIP", healthCheckNodePort: 31_000 },
    });
    assert.deepEqual(
      balancersOf([service({ ip: "1.2.3.4" }), local], () => true),
      [
        { address: "1.2.3.4", healthPort: 10_256, hasAffinity: false },
        { address: "1.2.3.5", healthPort: 31_000, hasAffinity: true },
      ],
    );
  });

  const balancer = { address: "1.2.3.4", healthPort: 10_256, hasAffinity: false };
  const nodes = ["10.0.0.1", "10.0.0.2"];

  it("has a route with all healthy nodes", () => {
    assert.equal(
      routeOf(balancer, nodes, "1.2.3.1")?.join(" "),
      "1.2.3.4 src 1.2.3.1 nexthop via 10.0.0.1 nexthop via 10.0.0.2",
    );
  });

  it("uses one node if clients must stay with their backend", () => {
    assert.equal(
      routeOf({ ...balancer, hasAffinity: true }, nodes, "1.2.3.1")?.join(" "),
      "1.2.3.4 src 1.2.3.1 nexthop via 10.0.0.1",
    );
  });

  it("has no route if no node is healthy", () => {
    assert.equal(routeOf(balancer, [], "1.2.3.1"), undefined);
  });
});
