import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../src/api/objects.ts";
import { DesiredState } from "../../../src/plan/desired-state.ts";
import { planService } from "../../../src/plan/planner.ts";
import { ip, planOptions, portRecord, serviceRecord } from "../../support/records.ts";

/** Of the node of {@link planOptions}. */
const nodeIp = "192.168.10.11";
const options = planOptions();

/** How a Service comes to want TCP `address`:30080. Node ports are wanted at the node's address only. */
const ways: Readonly<Record<string, (address: string) => Partial<ServiceRecord>>> = {
  "cluster IP": (address) => ({ clusterIps: [ip(address)] }),
  "node port": () => ({ type: "NodePort", ports: [portRecord({ port: 80, nodePort: 30080 })] }),
  "load-balancer IP": (address) => ({ type: "LoadBalancer", loadBalancerIps: [ip(address)] }),
  "external IP": (address) => ({ externalIps: [ip(address)] }),
};

/** Each pair of ways that may meet at one address, in the order of their right. */
const pairs: readonly (readonly [winner: string, loser: string])[] = [
  ["cluster IP", "load-balancer IP"],
  ["cluster IP", "external IP"],
  ["node port", "load-balancer IP"],
  ["node port", "external IP"],
  ["load-balancer IP", "external IP"],
];
const equals = ["cluster IP", "load-balancer IP", "external IP"];

function wanting(way: string, name: string, createdAtSeconds: number): ServiceRecord {
  const ports = [portRecord({ port: 30080 })];
  const clusterIps = [ip(name === "default/a" ? "10.96.0.10" : "10.96.0.11")];
  return serviceRecord({ name, createdAtSeconds, clusterIps, ports, ...ways[way]?.(nodeIp) });
}

/** Who has the virtual server after Services came in this order. */
function holders(...services: readonly ServiceRecord[]): string {
  const desired = new DesiredState();
  for (const service of services) {
    for (const plan of planService(service.name, service, [], options)) {
      desired.replace(plan.service, plan.family, plan.servicePorts);
    }
  }
  const winner = desired.claimantOf(`TCP ${nodeIp}:30080`) ?? "nobody";
  const losers = desired.lostClaims().map(({ loser }) => loser);
  return `${winner.split(":")[0]} before ${losers.map((loser) => loser.split(":")[0]).join()}`;
}

describe("of two Services that claim one address and port", () => {
  for (const [winner, loser] of pairs) {
    it(`a ${winner} has it before an older Service's ${loser}`, () => {
      const young = wanting(winner, "default/b", 9);
      const old = wanting(loser, "default/a", 1);
      assert.equal(holders(young, old), "default/b before default/a");
      assert.equal(holders(old, young), "default/b before default/a");
    });
  }

  for (const way of equals) {
    it(`the older has it before the younger, both with a ${way}`, () => {
      const old = wanting(way, "default/b", 1);
      const young = wanting(way, "default/a", 9);
      assert.equal(holders(young, old), "default/b before default/a");
      assert.equal(holders(old, young), "default/b before default/a");
    });
  }

  it("a cluster IP that its own Service names as external IP too has it before others", () => {
    const both = { clusterIps: [ip(nodeIp)], externalIps: [ip(nodeIp)] };
    const young = { ...wanting("cluster IP", "default/b", 9), ...both };
    assert.equal(
      holders(wanting("external IP", "default/a", 1), young),
      "default/b before default/a",
    );
  });

  it("the first in the order of manifests has it before the second, whatever their names", () => {
    const first = { ...wanting("external IP", "default/b", 0), manifestOrder: "1.yaml\u00000" };
    const second = { ...wanting("external IP", "default/a", 0), manifestOrder: "2.yaml\u00000" };
    assert.equal(holders(second, first), "default/b before default/a");
  });
});
