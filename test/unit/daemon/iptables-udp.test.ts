/** Uses iptables mode on the fake kernel to test which tracked UDP flows may continue when a Service changes. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { FakeNode } from "../../support/fake-node.ts";
import { dnsFlow } from "../../support/flows.ts";
import type { NamedObject } from "../../support/memory-source.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "../../support/objects.ts";
import { ip } from "../../support/records.ts";

const pod = "10.244.1.5";
const nodeAddress = "192.168.10.11";

interface Shape {
  readonly name?: string;
  readonly clusterIp?: string;
  readonly nodePort?: number;
  readonly externalIps?: readonly string[];
  readonly loadBalancerIps?: readonly string[];
}

/** A Service with every kind of address, except those that `shape` removes. */
function dns(shape: Shape = {}): NamedObject {
  const { name = "dns", clusterIp = "10.96.0.10", nodePort = 30_053 } = shape;
  const { externalIps = ["203.0.113.7"], loadBalancerIps = ["203.0.113.8"] } = shape;
  return named(
    service({
      name,
      type: "LoadBalancer",
      clusterIps: [clusterIp],
      ports: [
        {
          ...{ name: "dns", protocol: "UDP", port: 53, targetPort: 5353 },
          ...(nodePort === 0 ? {} : { nodePort }),
        },
      ],
      spec: { externalIPs: externalIps, allocateLoadBalancerNodePorts: nodePort !== 0 },
      status: { loadBalancer: { ingress: loadBalancerIps.map((one) => ({ ip: one })) } },
    }),
  );
}

function slice(owner = "dns", address = pod): NamedObject {
  return sliceOf(owner, [address]);
}

function sliceOf(
  owner: string,
  endpoints: readonly (string | ReturnType<typeof endpoint>)[],
): NamedObject {
  const ports = [{ name: "dns", protocol: "UDP", port: 5353 }];
  return named(endpointSlice({ service: owner, endpoints, ports }));
}

function named(object: ApiObject): NamedObject {
  return object as unknown as NamedObject;
}

describe("iptables mode: UDP flows", () => {
  let node: FakeNode;
  let sourcePort = 4_000;

  beforeEach(() => {
    node = new FakeNode({ "proxy-mode": "iptables", "iptables-min-sync-period": "0s" });
  });
  afterEach(() => node.stop());

  /** Tracks a client's flow, answered by a pod, to each destination. */
  function track(destinations: readonly string[], answeredBy = pod): void {
    const flows = destinations.map((destination) => {
      sourcePort += 1;
      const [address = "", port = "53"] = destination.split("!");
      return dnsFlow({
        sourcePort,
        destination: ip(address),
        destinationPort: Number(port),
        replySource: ip(answeredBy === "nobody" ? address : answeredBy),
        replySourcePort: answeredBy === "nobody" ? Number(port) : 5353,
      });
    });
    node.kernel.conntrack.flows = [...node.kernel.conntrack.flows, ...flows];
  }

  /** `203.0.113.7!53 by 10.244.1.5` */
  function left(): readonly string[] {
    return node.kernel.conntrack.flows.map(
      ({ destination, destinationPort, replySource }) =>
        `${destination}!${destinationPort} by ${replySource}`,
    );
  }

  const everywhere = [
    ...["10.96.0.10!53", "203.0.113.7!53", "203.0.113.8!53"],
    ...[`${nodeAddress}!30053`, "127.0.0.1!30053", "127.0.0.2!30053"],
  ];
  const all = everywhere.map((one) => `${one} by ${pod}`);

  const losses: readonly (readonly [name: string, shape: Shape, lost: readonly string[]])[] = [
    ["its cluster IP for another one", { clusterIp: "10.96.0.99" }, ["10.96.0.10!53"]],
    ["an external IP", { externalIps: [] }, ["203.0.113.7!53"]],
    ["a load-balancer IP", { loadBalancerIps: [] }, ["203.0.113.8!53"]],
    [
      "its node port",
      { nodePort: 0 },
      [`${nodeAddress}!30053`, "127.0.0.1!30053", "127.0.0.2!30053"],
    ],
    [
      "its node port for another one",
      { nodePort: 30_054 },
      [`${nodeAddress}!30053`, "127.0.0.1!30053", "127.0.0.2!30053"],
    ],
  ];
  for (const [name, shape, lost] of losses) {
    it(`end if a Service loses ${name}, and other flows continue`, async () => {
      node.source.apply(dns(), slice());
      await node.start();
      await node.settle();
      track(everywhere);
      node.source.apply(dns(shape));
      await node.settle();
      assert.deepEqual(
        left(),
        all.filter((one) => !lost.some((place) => one.startsWith(`${place} `))),
      );
    });
  }

  it("end if their Service is deleted, or its last endpoint is removed", async () => {
    node.source.apply(dns(), slice());
    await node.start();
    await node.settle();
    track(everywhere);
    node.source.delete(slice());
    await node.settle();
    assert.deepEqual(left(), []);
    node.source.apply(slice());
    await node.settle();
    track(everywhere);
    node.source.delete(dns());
    await node.settle();
    assert.deepEqual(left(), []);
  });

  it("stay with a terminating endpoint while it serves, and end afterwards", async () => {
    const leaving = (serving: boolean): NamedObject => {
      const conditions = { ready: false, serving, terminating: true };
      return sliceOf("dns", [endpoint(pod, { conditions }), "10.244.1.6"]);
    };
    node.source.apply(dns(), sliceOf("dns", [pod, "10.244.1.6"]));
    await node.start();
    await node.settle();
    track(everywhere);
    node.source.apply(leaving(true));
    await node.settle();
    assert.deepEqual(left(), all);
    node.source.apply(leaving(false));
    await node.settle();
    assert.deepEqual(left(), []);
  });

  it("to a loopback address continue if it serves no node port", async () => {
    await node.stop();
    node = new FakeNode({
      "proxy-mode": "iptables",
      "iptables-min-sync-period": "0s",
      "iptables-localhost-nodeports": "false",
    });
    node.source.apply(dns(), slice());
    await node.start();
    await node.settle();
    track(everywhere);
    node.source.delete(dns());
    await node.settle();
    assert.deepEqual(
      left(),
      all.filter((one) => one.startsWith("127.")),
    );
  });

  it("go to the current owner of a contested address", async () => {
    const young = { name: "young", clusterIp: "10.96.0.11", nodePort: 0, loadBalancerIps: [] };
    node.source.apply(dns(young), slice("young", "10.244.1.6"));
    await node.start();
    await node.settle();
    track(["203.0.113.7!53"], "10.244.1.6");
    // A load-balancer IP takes precedence over an external IP.
    node.source.apply(dns({ externalIps: [], loadBalancerIps: ["203.0.113.7"] }), slice());
    await node.settle();
    assert.match(
      (await node.state()).iptables ?? "",
      /-d 203\.0\.113\.7\/32 .*--comment "default\/dns:dns/,
    );
    assert.deepEqual(left(), []);
  });

  it("that began while rules were missing end with the repair", async () => {
    node.source.apply(dns(), slice());
    await node.start();
    await node.settle();
    const nat = { table: "nat", name: "KUBE-SERVICES", rules: [] } as const;
    await node.kernel.iptables.apply("IPv4", [{ kind: "chain-write", chain: nat }]);
    track(["10.96.0.10!53"], "nobody");
    track(["10.96.0.10!53"]);
    await node.wait(60_000);
    await node.settle();
    assert.match((await node.state()).iptables ?? "", /-A KUBE-SERVICES -d 10\.96\.0\.10/);
    assert.deepEqual(left(), [`10.96.0.10!53 by ${pod}`]);
  });
});
