import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointSliceRecord, ServiceRecord } from "../../../src/api/objects.ts";
import { DesiredState } from "../../../src/plan/desired-state.ts";
import { virtualServerKey } from "../../../src/state/virtual-server.ts";
import { planService } from "../../support/plan-at-once.ts";
import { entriesText, ipvsText } from "../../support/plan-text.ts";
import {
  cidr,
  endpointRecord,
  familyOptions,
  ip,
  localEndpoint,
  planOptions,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../support/records.ts";

const p1 = localEndpoint("10.244.1.5");
const p2 = endpointRecord("10.244.2.6");
const p3 = endpointRecord("10.244.3.7");

/** Options with two node-port addresses, as on a node with a bridge. */
const options = planOptions({
  families: new Map([
    [
      "IPv4",
      familyOptions("IPv4", {
        nodeIp: ip("192.168.0.10"),
        nodeAddresses: new Set([ip("192.168.0.10"), ip("10.244.1.1")]),
        nodePortAddresses: [ip("192.168.0.10"), ip("10.244.1.1")],
      }),
    ],
    ["IPv6", familyOptions("IPv6")],
  ]),
});

interface Example {
  readonly name: string;
  readonly service: Parameters<typeof serviceRecord>[0];
  readonly slices: readonly EndpointSliceRecord[];
  readonly servers: readonly string[];
  readonly entries: readonly string[];
  readonly addresses: readonly string[];
  readonly denied?: readonly string[];
}

const examples: readonly Example[] = [
  {
    name: "a cluster IP, one endpoint here and one elsewhere",
    service: { clusterIps: [ip("10.96.0.20")] },
    slices: [sliceRecord([p1, p2])],
    servers: [
      "-A -t 10.96.0.20:80 -s rr",
      "-a -t 10.96.0.20:80 -r 10.244.1.5:8080 -m -w 1",
      "-a -t 10.96.0.20:80 -r 10.244.2.6:8080 -m -w 1",
    ],
    entries: [
      "add KUBE-CLUSTER-IP 10.96.0.20,tcp:80",
      "add KUBE-IPVS-IPS 10.96.0.20",
      "add KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.1.5",
    ],
    addresses: ["10.96.0.20"],
  },
  {
    name: "session affinity",
    service: {
      ports: [portRecord({ name: "dns", protocol: "UDP", port: 53 })],
      affinitySeconds: 10_800,
    },
    slices: [sliceRecord([p2], { ports: [{ name: "dns", protocol: "UDP", port: 5353 }] })],
    servers: [
      "-A -u 10.96.0.10:53 -s rr -p 10800",
      "-a -u 10.96.0.10:53 -r 10.244.2.6:5353 -m -w 1",
    ],
    entries: ["add KUBE-CLUSTER-IP 10.96.0.10,udp:53", "add KUBE-IPVS-IPS 10.96.0.10"],
    addresses: ["10.96.0.10"],
  },
  {
    name: "a node port with policy Local uses the endpoint here",
    service: {
      type: "NodePort",
      isExternalPolicyLocal: true,
      ports: [portRecord({ nodePort: 30081 })],
    },
    slices: [sliceRecord([p1, p2])],
    servers: [
      "-A -t 10.244.1.1:30081 -s rr",
      "-A -t 10.96.0.10:80 -s rr",
      "-A -t 192.168.0.10:30081 -s rr",
      "-a -t 10.244.1.1:30081 -r 10.244.1.5:8080 -m -w 1",
      "-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1",
      "-a -t 10.96.0.10:80 -r 10.244.2.6:8080 -m -w 1",
      "-a -t 192.168.0.10:30081 -r 10.244.1.5:8080 -m -w 1",
    ],
    entries: [
      "add KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
      "add KUBE-IPVS-IPS 10.96.0.10",
      "add KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.1.5",
      "add KUBE-NODE-PORT-LOCAL-TCP 30081",
      "add KUBE-NODE-PORT-TCP 30081",
    ],
    addresses: ["10.96.0.10"],
  },
  {
    name: "a load balancer whose source ranges admit this node",
    service: {
      type: "LoadBalancer",
      loadBalancerIps: [ip("203.0.113.10")],
      sourceRanges: ["198.51.100.0/24", "192.168.0.10/32", "198.51.100.128/25"].map(cidr),
    },
    slices: [sliceRecord([p2])],
    servers: [
      "-A -t 10.96.0.10:80 -s rr",
      "-A -t 203.0.113.10:80 -s rr",
      "-a -t 10.96.0.10:80 -r 10.244.2.6:8080 -m -w 1",
      "-a -t 203.0.113.10:80 -r 10.244.2.6:8080 -m -w 1",
    ],
    entries: [
      "add KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
      "add KUBE-IPVS-IPS 10.96.0.10",
      "add KUBE-IPVS-IPS 203.0.113.10",
      "add KUBE-LOAD-BALANCER 203.0.113.10,tcp:80",
      "add KUBE-LOAD-BALANCER-FW 203.0.113.10,tcp:80",
      "add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.10,tcp:80,192.168.0.10",
      "add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.10,tcp:80,198.51.100.0/24",
      "add KUBE-LOAD-BALANCER-SOURCE-IP 203.0.113.10,tcp:80,203.0.113.10",
    ],
    addresses: ["10.96.0.10", "203.0.113.10"],
  },
  {
    name: "a load balancer whose source ranges exclude this node",
    service: {
      type: "LoadBalancer",
      loadBalancerIps: [ip("203.0.113.10")],
      sourceRanges: [cidr("198.51.100.0/24")],
    },
    slices: [],
    servers: ["-A -t 10.96.0.10:80 -s rr", "-A -t 203.0.113.10:80 -s rr"],
    entries: [
      "add KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
      "add KUBE-IPVS-IPS 10.96.0.10",
      "add KUBE-IPVS-IPS 203.0.113.10",
      "add KUBE-LOAD-BALANCER 203.0.113.10,tcp:80",
      "add KUBE-LOAD-BALANCER-FW 203.0.113.10,tcp:80",
      "add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.10,tcp:80,198.51.100.0/24",
    ],
    addresses: ["10.96.0.10", "203.0.113.10"],
    denied: ["TCP 203.0.113.10:80"],
  },
  {
    name: "an external IP that is a node address is served but not bound",
    service: { externalIps: [ip("198.18.0.7"), ip("192.168.0.10")] },
    slices: [],
    servers: [
      "-A -t 10.96.0.10:80 -s rr",
      "-A -t 192.168.0.10:80 -s rr",
      "-A -t 198.18.0.7:80 -s rr",
    ],
    entries: [
      "add KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
      "add KUBE-EXTERNAL-IP 192.168.0.10,tcp:80",
      "add KUBE-EXTERNAL-IP 198.18.0.7,tcp:80",
      "add KUBE-IPVS-IPS 10.96.0.10",
      "add KUBE-IPVS-IPS 198.18.0.7",
    ],
    addresses: ["10.96.0.10", "198.18.0.7"],
  },
  {
    name: "SCTP node ports have one entry for each node address",
    service: {
      type: "NodePort",
      ports: [portRecord({ name: "s", protocol: "SCTP", port: 36412, nodePort: 30132 })],
    },
    slices: [sliceRecord([p3], { ports: [{ name: "s", protocol: "SCTP", port: 36412 }] })],
    servers: [
      "-A --sctp-service 10.244.1.1:30132 -s rr",
      "-A --sctp-service 10.96.0.10:36412 -s rr",
      "-A --sctp-service 192.168.0.10:30132 -s rr",
      "-a --sctp-service 10.244.1.1:30132 -r 10.244.3.7:36412 -m -w 1",
      "-a --sctp-service 10.96.0.10:36412 -r 10.244.3.7:36412 -m -w 1",
      "-a --sctp-service 192.168.0.10:30132 -r 10.244.3.7:36412 -m -w 1",
    ],
    entries: [
      "add KUBE-CLUSTER-IP 10.96.0.10,sctp:36412",
      "add KUBE-IPVS-IPS 10.96.0.10",
      "add KUBE-NODE-PORT-SCTP-HASH 10.244.1.1,sctp:30132",
      "add KUBE-NODE-PORT-SCTP-HASH 192.168.0.10,sctp:30132",
    ],
    addresses: ["10.96.0.10"],
  },
  {
    name: "both families, each with its own endpoints",
    service: { clusterIps: [ip("10.96.0.70"), ip("fd00:96::70")] },
    slices: [
      sliceRecord([p1]),
      sliceRecord([localEndpoint("fd00:244:1::5")], { name: "default/a-6", family: "IPv6" }),
    ],
    servers: [
      "-A -t 10.96.0.70:80 -s rr",
      "-A -t [fd00:96::70]:80 -s rr",
      "-a -t 10.96.0.70:80 -r 10.244.1.5:8080 -m -w 1",
      "-a -t [fd00:96::70]:80 -r [fd00:244:1::5]:8080 -m -w 1",
    ],
    entries: [
      "add KUBE-6-CLUSTER-IP fd00:96::70,tcp:80",
      "add KUBE-6-IPVS-IPS fd00:96::70",
      "add KUBE-6-LOOP-BACK fd00:244:1::5,tcp:8080,fd00:244:1::5",
      "add KUBE-CLUSTER-IP 10.96.0.70,tcp:80",
      "add KUBE-IPVS-IPS 10.96.0.70",
      "add KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.1.5",
    ],
    addresses: ["10.96.0.70", "fd00:96::70"],
  },
];

function desiredFor(service: ServiceRecord, slices: readonly EndpointSliceRecord[]): DesiredState {
  const desired = new DesiredState();
  for (const plan of planService(service.name, service, slices, options)) {
    desired.replace(plan.service, plan.family, plan.servicePorts);
  }
  return desired;
}

describe("a plan contains", () => {
  for (const { name, service, slices, servers, entries, addresses, denied } of examples) {
    it(name, () => {
      const desired = desiredFor(serviceRecord(service), slices);
      assert.deepEqual(ipvsText(desired), [...servers].sort());
      assert.deepEqual(entriesText(desired), entries);
      assert.deepEqual([...desired.addresses()].sort(), addresses);
      assert.deepEqual(desired.deniedToNode("IPv4").map(virtualServerKey), denied ?? []);
    });
  }

  it("the port flag under the mh scheduler", () => {
    const [plan] = planService("default/a", serviceRecord(), [], planOptions({ scheduler: "mh" }));
    assert.equal(plan?.servicePorts[0]?.virtualServers[0]?.virtualServer.flags, 0x10);
  });

  it("the health-check port and the count of local ready addresses", () => {
    const service = serviceRecord({
      type: "LoadBalancer",
      isExternalPolicyLocal: true,
      healthCheckNodePort: 32100,
      loadBalancerIps: [ip("203.0.113.10")],
    });
    const [plan] = planService("default/a", service, [sliceRecord([p1, p2])], options);
    assert.equal(plan?.localReadyCount, 1);
    const entries = plan?.servicePorts[0]?.setEntries.map(
      ({ set, entry }) => `${set.name} ${entry}`,
    );
    assert.ok(entries?.includes("KUBE-HEALTH-CHECK-NODE-PORT 32100"));
  });

  it("an entry for the health-check port without a node-port address", () => {
    const service = serviceRecord({
      type: "LoadBalancer",
      isExternalPolicyLocal: true,
      healthCheckNodePort: 32100,
      ports: [portRecord({ nodePort: 30080 })],
    });
    const nowhere = familyOptions("IPv4", { nodePortAddresses: [] });
    const families = new Map([["IPv4", nowhere] as const]);
    const [plan] = planService("default/a", service, [], planOptions({ families }));
    assert.deepEqual(
      plan?.servicePorts[0]?.setEntries.map(({ set, entry }) => `${set.name} ${entry}`),
      [
        "KUBE-IPVS-IPS 10.96.0.10",
        "KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
        "KUBE-HEALTH-CHECK-NODE-PORT 32100",
      ],
    );
  });
});
