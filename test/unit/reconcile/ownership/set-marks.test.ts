import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isNamedByAddress } from "../../../../src/reconcile/ownership/set-marks.ts";
import { desiredFrom } from "../../../support/many-services.ts";
import { endpoint, endpointSlice, service, servicePort } from "../../../support/objects.ts";
import { ip } from "../../../support/records.ts";

const externalPolicies = ["Cluster", "Local"];
const protocols = ["TCP", "UDP", "SCTP"];

/** One Service for each protocol and policy, with every kind of address. */
const objects = protocols.flatMap((protocol, at) =>
  externalPolicies.flatMap((externalTrafficPolicy, offset) => {
    const number = 1 + 2 * at + offset;
    const name = `svc-${number}`;
    return [
      service({
        name,
        type: "LoadBalancer",
        clusterIps: [`10.96.0.${number}`],
        ports: [servicePort({ protocol, nodePort: 30_000 + number })],
        spec: { externalTrafficPolicy, externalIPs: [`198.51.100.${number}`] },
        status: { loadBalancer: { ingress: [{ ip: `203.0.113.${number}` }] } },
      }),
      endpointSlice({
        service: name,
        name: `${name}-a`,
        endpoints: [endpoint("10.244.2.11")],
        ports: [{ name: "http", protocol, port: 8080 }],
      }),
    ];
  }),
);

describe("a set identifies a planned virtual server by its address", () => {
  it("unless the address belongs to a node port", () => {
    const desired = desiredFrom(objects, [ip("192.168.10.11")]);
    const kinds = new Map<string, number>();
    for (const key of desired.virtualServerKeys()) {
      const planned = desired.virtualServer(key);
      assert.ok(planned);
      const isNamed = isNamedByAddress(planned.virtualServer, desired);
      assert.equal(isNamed, planned.kind !== "node-port", key);
      kinds.set(planned.kind, (kinds.get(planned.kind) ?? 0) + 1);
    }
    const each = protocols.length * externalPolicies.length;
    const all = ["cluster-ip", "external-ip", "load-balancer", "node-port"];
    assert.deepEqual(kinds, new Map(all.map((kind) => [kind, each])));
  });
});
