/**
 * Tests the shares of Services that exceed a limit: they are the same on every node, and do not reduce other
 * namespaces' shares.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../src/api/objects.ts";
import { type ServiceName, toServiceName } from "../../../src/base/service-name.ts";
import { ChangeTracker } from "../../../src/model/change-tracker.ts";
import { type Limits, noLimits } from "../../../src/model/limits.ts";
import {
  endpointRecord,
  ip,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../support/records.ts";

const limits: Limits = {
  service: { frontends: 10, endpoints: 20 },
  namespace: { frontends: 16, endpoints: 30 },
};

function service(name: ServiceName, fields: Partial<ServiceRecord> = {}): ServiceRecord {
  return serviceRecord({ name, ...fields });
}

/** A Service with this number of ports, and external IPs. */
function sized(
  name: ServiceName,
  ports: number,
  externalIps: number,
  createdAtSeconds = 0,
): ServiceRecord {
  return service(name, {
    createdAtSeconds,
    ports: Array.from({ length: ports }, (_, index) =>
      portRecord({ name: `p${index}`, port: 80 + index }),
    ),
    externalIps: Array.from({ length: externalIps }, (_, index) =>
      ip(`203.0.${113 + Math.floor(index / 255)}.${(index % 255) + 1}`),
    ),
  });
}

class Cluster {
  readonly tracker: ChangeTracker;

  constructor(given: Limits = limits) {
    this.tracker = new ChangeTracker(0, given);
  }

  put(...services: readonly ServiceRecord[]): readonly string[] {
    for (const one of services) this.tracker.noteService(this.tracker.service(one.name), one);
    return this.#taken();
  }

  remove(...services: readonly ServiceRecord[]): readonly string[] {
    for (const one of services) this.tracker.noteService(one, undefined);
    return this.#taken();
  }

  #taken(): readonly string[] {
    return this.tracker
      .take()
      .services.map(({ name }) => name)
      .toSorted();
  }

  /** Numbers of served ports and external IPs. */
  served(name: ServiceName): readonly number[] | undefined {
    const one = this.tracker.service(name);
    return one && [one.ports.length, one.externalIps.length];
  }

  get limited(): readonly string[] {
    return [...this.tracker.limitedServices()]
      .map(({ service: { name }, limit }) => `${name} ${limit}`)
      .toSorted();
  }
}

describe("a Service above its limit", () => {
  it("keeps its ports and as many addresses as fit, in the order of the Service", () => {
    const cluster = new Cluster();
    cluster.put(sized("a/big", 3, 500));
    assert.deepEqual(cluster.served("a/big"), [3, 2], "3 ports at 3 addresses are 9");
    assert.deepEqual(cluster.tracker.service("a/big")?.externalIps, ["203.0.113.1", "203.0.113.2"]);
    assert.deepEqual(cluster.limited, ["a/big service-limit"]);
    cluster.put(sized("a/big", 3, 2));
    assert.deepEqual(cluster.served("a/big"), [3, 2]);
    assert.deepEqual(cluster.limited, []);
  });

  it("keeps its first ports if these alone exceed the limit, and no other address", () => {
    const cluster = new Cluster();
    cluster.put(sized("a/big", 500, 500));
    assert.deepEqual(cluster.served("a/big"), [10, 0]);
  });

  it("keeps load-balancer IPs before external IPs, and node ports with its ports", () => {
    const cluster = new Cluster();
    const loadBalancerIps = [ip("198.51.100.1"), ip("198.51.100.2")];
    const ports = [80, 81].map((port) =>
      portRecord({ name: `p${port}`, port, nodePort: 30_000 + port }),
    );
    const externalIps = [1, 2, 3].map((one) => ip(`203.0.113.${one}`));
    cluster.put(service("a/big", { type: "LoadBalancer", ports, loadBalancerIps, externalIps }));
    const served = cluster.tracker.service("a/big");
    assert.deepEqual(served?.loadBalancerIps, loadBalancerIps);
    assert.deepEqual(served?.externalIps, ["203.0.113.1"]);
  });

  it("counts a load-balancer IP once more for every 16 source ranges, and does not serve it if they do not fit", () => {
    const cluster = new Cluster();
    const loadBalancerIps = [ip("198.51.100.1")];
    const ports = [80, 81].map((port) => portRecord({ name: `p${port}`, port }));
    const sized = (rangeCount: number): ServiceRecord =>
      service("a/big", {
        ...{ type: "LoadBalancer", ports, loadBalancerIps },
        sourceRanges: Array.from({ length: rangeCount }, (_, index) => ({
          address: ip(`192.0.2.${index}`),
          prefixLength: 32,
        })),
      });
    cluster.put(sized(48));
    assert.deepEqual(cluster.tracker.service("a/big")?.loadBalancerIps, loadBalancerIps);
    assert.deepEqual(cluster.limited, [], "2 ports, at the cluster IP and 4 times");
    cluster.put(sized(49));
    assert.deepEqual(cluster.tracker.service("a/big")?.loadBalancerIps, []);
    assert.equal(cluster.tracker.service("a/big")?.ports.length, 2);
    assert.deepEqual(cluster.limited, ["a/big service-limit"]);
  });

  it("counts a rule for each address, protocol, port range and source range", () => {
    const cluster = new Cluster({ ...noLimits, service: { frontends: 100, endpoints: 20 } });
    const loadBalancerIps = [ip("198.51.100.1")];
    const ranged = (rangeCount: number): ServiceRecord =>
      service("a/big", {
        ...{ type: "LoadBalancer", loadBalancerIps, externalIps: [ip("203.0.113.1")] },
        ports: [portRecord(), portRecord({ name: "udp", protocol: "UDP" })],
        annotations: { "kube-ipvs.io/port-range": "80,1000-2000" },
        sourceRanges: Array.from({ length: rangeCount }, (_, index) => ({
          address: ip(`192.0.2.${index}`),
          prefixLength: 32,
        })),
      });
    cluster.put(ranged(19));
    assert.deepEqual(cluster.limited, [], "3 addresses cost 3 * (2 + 4), and 19 ranges 4 + 4 * 19");
    assert.deepEqual(cluster.tracker.service("a/big")?.loadBalancerIps, loadBalancerIps);
    cluster.put(ranged(20));
    assert.deepEqual(cluster.limited, ["a/big service-limit"]);
    assert.deepEqual(cluster.tracker.service("a/big")?.externalIps, []);
    cluster.put(ranged(250));
    assert.deepEqual(cluster.tracker.service("a/big")?.loadBalancerIps, []);
    assert.equal(cluster.tracker.service("a/big")?.ports.length, 2);
  });

  it("uses the endpoints of its first slices by name, regardless of the order of events", () => {
    const slices = ["a/big-1", "a/big-2", "a/big-3"].map((name, slice) =>
      sliceRecord(
        Array.from({ length: 8 }, (_, index) => endpointRecord(`10.244.${slice}.${index + 1}`)),
        { name, service: "a/big" },
      ),
    );
    for (const order of [slices, slices.toReversed()]) {
      const cluster = new Cluster();
      for (const slice of order) cluster.tracker.noteSlice(undefined, slice);
      cluster.put(service("a/big"));
      const counts = [...cluster.tracker.slicesOf("a/big")].map(({ name, endpoints }) => [
        name,
        endpoints.length,
      ]);
      assert.deepEqual(counts, [
        ["a/big-1", 8],
        ["a/big-2", 8],
        ["a/big-3", 4],
      ]);
      assert.deepEqual(cluster.limited, ["a/big service-limit"]);
    }
  });

  it("counts an endpoint once for each frontend", () => {
    const cluster = new Cluster();
    const endpoints = Array.from({ length: 8 }, (_, index) => endpointRecord(`10.244.1.${index}`));
    const slice = sliceRecord(endpoints, {
      name: "a/big-1",
      service: "a/big",
      ports: [{ name: "p0", protocol: "TCP", port: 80 }],
    });
    cluster.tracker.noteSlice(undefined, slice);
    cluster.put(sized("a/big", 1, 3));
    assert.deepEqual(
      [...cluster.tracker.slicesOf("a/big")].map((one) => one.endpoints.length),
      [5],
    );
  });
});

describe("Services of a namespace above its limit", () => {
  it("share it in the order of their age, and other namespaces are not affected", () => {
    const cluster = new Cluster();
    const victim = sized("victim/web", 2, 2, 99);
    cluster.put(
      victim,
      sized("a/old", 1, 8, 1),
      sized("a/young", 2, 4, 3),
      sized("a/middle", 1, 4, 2),
    );
    assert.deepEqual(cluster.served("a/old"), [1, 8]);
    assert.deepEqual(cluster.served("a/middle"), [1, 4]);
    assert.deepEqual(cluster.served("a/young"), [2, 0]);
    assert.deepEqual(cluster.served("victim/web"), [2, 2]);
    assert.deepEqual(cluster.limited, ["a/young namespace-limit"]);
  });

  it("are planned again if their share changes, but no other Services are", () => {
    const cluster = new Cluster();
    const old = sized("a/old", 1, 9, 1);
    cluster.put(old, sized("a/young", 2, 4, 3), sized("b/web", 1, 0));
    assert.deepEqual(cluster.served("a/young"), [2, 2]);
    assert.deepEqual(cluster.put(sized("a/old", 1, 4, 1)), ["a/old", "a/young"]);
    assert.deepEqual(cluster.served("a/young"), [2, 4]);
    cluster.put(old);
    assert.deepEqual(cluster.remove(old), ["a/old", "a/young"]);
    assert.deepEqual(cluster.served("a/young"), [2, 4]);
    assert.deepEqual(cluster.limited, []);
  });

  it("are no longer reported after they are deleted, one by one or together", () => {
    const cluster = new Cluster();
    const [old, middle, young] = [1, 2, 3].map((age) => sized(`a/s${age}`, 1, 9, age));
    assert.ok(old !== undefined && middle !== undefined && young !== undefined);
    cluster.put(old, middle, young);
    assert.deepEqual(cluster.limited, ["a/s2 namespace-limit", "a/s3 namespace-limit"]);
    cluster.remove(young);
    assert.deepEqual(cluster.limited, ["a/s2 namespace-limit"]);
    cluster.remove(old, middle);
    assert.deepEqual(cluster.limited, []);
  });

  it("end with the same shares after any order of changes", () => {
    const names = Array.from({ length: 12 }, (_, index) => toServiceName(`a/s${index}`));
    const final = names.map((name, index) => sized(name, 1 + (index % 3), index % 5, index));
    const straight = new Cluster();
    straight.put(...final);
    const winding = new Cluster();
    for (const [index, name] of names.toReversed().entries()) {
      winding.put(sized(name, 1 + (index % 4), 7, index));
    }
    for (const one of final) winding.put(one);
    for (const name of names) assert.deepEqual(winding.served(name), straight.served(name), name);
    assert.deepEqual(winding.limited, straight.limited);
  });
});

describe("without limits", () => {
  it("every Service gets everything that it requests", () => {
    const cluster = new Cluster(noLimits);
    cluster.put(sized("a/big", 500, 200));
    assert.deepEqual(cluster.served("a/big"), [500, 200]);
    assert.deepEqual(cluster.limited, []);
  });
});
