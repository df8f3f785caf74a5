import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../src/api/objects.ts";
import type { ServicePort } from "../../../src/model/service-port.ts";
import { isExternallyAccessible, servicePortsOf } from "../../../src/model/service-ports.ts";
import { cidr, ip, portRecord, serviceRecord } from "../../support/records.ts";

const dualStack = serviceRecord({
  type: "LoadBalancer",
  clusterIps: [ip("10.96.0.10"), ip("fd00:96::a")],
  externalIps: [ip("198.18.0.7"), ip("2001:db8::7")],
  loadBalancerIps: [ip("2001:db8::1"), ip("203.0.113.1")],
  sourceRanges: [cidr("198.51.100.0/24"), cidr("2001:db8:51::/48")],
});

function first(overrides: Partial<ServiceRecord>): ServicePort {
  const [port] = servicePortsOf(serviceRecord(overrides), "IPv4");
  assert.ok(port);
  return port;
}

describe("the service ports of a Service", () => {
  it("have only addresses and source ranges of their own family", () => {
    const shown = (["IPv4", "IPv6"] as const).map((family) =>
      servicePortsOf(dualStack, family).map((port) => [
        port.clusterIp,
        ...[...port.externalIps, ...port.loadBalancerIps],
        ...port.sourceRanges.map(({ address }) => address),
      ]),
    );
    assert.deepEqual(shown, [
      [["10.96.0.10", "198.18.0.7", "203.0.113.1", "198.51.100.0"]],
      [["fd00:96::a", "2001:db8::7", "2001:db8::1", "2001:db8:51::"]],
    ]);
  });

  it("are empty in a family without a cluster IP", () => {
    assert.deepEqual(servicePortsOf(serviceRecord(), "IPv6"), []);
  });

  it("have no source ranges if one of their family contains all addresses", () => {
    const open = { ...dualStack, sourceRanges: [cidr("0.0.0.0/0"), ...dualStack.sourceRanges] };
    const counts = (["IPv4", "IPv6"] as const).map(
      (family) => servicePortsOf(open, family)[0]?.sourceRanges.length,
    );
    assert.deepEqual(counts, [0, 1]);
  });

  const policies: readonly (readonly [string, Partial<ServiceRecord>, isLocal: boolean])[] = [
    ["ClusterIP", {}, false],
    ["ClusterIP with an external IP", { externalIps: [ip("198.18.0.7")] }, true],
    ["NodePort", { type: "NodePort" }, true],
    ["LoadBalancer without an address yet", { type: "LoadBalancer" }, true],
  ];
  for (const [name, overrides, isLocal] of policies) {
    it(`${isLocal ? "have" : "do not have"} external policy Local in a Service of type ${name}`, () => {
      assert.equal(
        first({ ...overrides, isExternalPolicyLocal: true }).isExternalPolicyLocal,
        isLocal,
      );
      assert.equal(first(overrides).isExternalPolicyLocal, false);
    });
  }

  it("have a health-check node port only for type LoadBalancer with external policy Local", () => {
    const portOf = (type: ServiceRecord["type"], isExternalPolicyLocal: boolean): number =>
      first({ type, isExternalPolicyLocal, healthCheckNodePort: 32_000 }).healthCheckNodePort;
    assert.deepEqual(
      [portOf("LoadBalancer", true), portOf("LoadBalancer", false), portOf("NodePort", true)],
      [32_000, 0, 0],
    );
  });

  it("are external with a node port, a load-balancer IP or an external IP", () => {
    assert.deepEqual(
      [
        {},
        { ports: [portRecord({ nodePort: 30_080 })] },
        { loadBalancerIps: [ip("203.0.113.1")] },
        { externalIps: [ip("198.18.0.7")] },
      ].map((overrides) => isExternallyAccessible(first(overrides))),
      [false, true, true, true],
    );
  });
});
