import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import type { Cidr, IpAddress } from "../../../../src/base/ip.ts";
import { type ApiObject, service, servicePort } from "../../../support/objects.ts";
import { decode } from "./decoding.ts";

const web: ServiceRecord = {
  name: "default/web",
  createdAtSeconds: 1_767_225_600,
  type: "ClusterIP",
  clusterIps: ["10.96.0.10" as IpAddress],
  externalIps: [],
  loadBalancerIps: [],
  sourceRanges: [],
  ports: [{ name: "http", protocol: "TCP", port: 80, nodePort: 0 }],
  affinitySeconds: 0,
  isExternalPolicyLocal: false,
  isInternalPolicyLocal: false,
  healthCheckNodePort: 0,
};
const http = { name: "http", protocol: "TCP", port: 80, nodePort: 0 } as const;

function loadBalancer(ingress: readonly unknown[], spec: Record<string, unknown> = {}): ApiObject {
  return service({ type: "LoadBalancer", spec, status: { loadBalancer: { ingress } } });
}

function cidr(address: string, prefixLength: number): Cidr {
  return { address: address as IpAddress, prefixLength };
}

describe("a Service for this proxy", () => {
  const cases: readonly {
    readonly name: string;
    readonly given: ApiObject;
    readonly want: Partial<ServiceRecord>;
  }[] = [
    { name: "is reduced to a record", given: service(), want: {} },
    {
      name: "has one cluster IP per family",
      given: service({ clusterIps: ["fd00::a", "10.96.0.10"] }),
      want: { clusterIps: ["fd00::a", "10.96.0.10"] as IpAddress[] },
    },
    {
      name: "uses only clusterIP if ipFamilies is missing",
      given: service({ clusterIps: ["10.96.0.10", "fd00::a"], spec: { ipFamilies: undefined } }),
      want: {},
    },
    {
      name: "uses clusterIP if clusterIPs is missing",
      given: service({ spec: { clusterIPs: null } }),
      want: {},
    },
    {
      name: "reads numbers with leading zeros as decimal",
      given: service({ clusterIps: ["010.096.000.010"] }),
      want: {},
    },
    {
      name: "defaults the protocol to TCP and the name to none",
      given: service({ ports: [{ port: 80 }] }),
      want: { ports: [{ ...http, name: "" }] },
    },
    {
      name: "may use one name and number for two protocols",
      given: service({
        ports: [servicePort(), servicePort({ protocol: "UDP" }), servicePort({ protocol: "SCTP" })],
      }),
      want: { ports: [http, { ...http, protocol: "UDP" }, { ...http, protocol: "SCTP" }] },
    },
    {
      name: "keeps node ports",
      given: service({ type: "NodePort", ports: [servicePort({ nodePort: 30080 })] }),
      want: { type: "NodePort", ports: [{ ...http, nodePort: 30080 }] },
    },
    {
      name: "has 10800 s of affinity if ClientIP has no timeout",
      given: service({ spec: { sessionAffinity: "ClientIP" } }),
      want: { affinitySeconds: 10_800 },
    },
    {
      name: "has the given affinity",
      given: service({
        spec: {
          sessionAffinity: "ClientIP",
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
        },
      }),
      want: { affinitySeconds: 60 },
    },
    {
      name: "has no affinity with None, regardless of the timeout",
      given: service({
        spec: {
          sessionAffinity: "None",
          sessionAffinityConfig: { clientIP: { timeoutSeconds: "x" } },
        },
      }),
      want: { affinitySeconds: 0 },
    },
    {
      name: "has Local policies and the health-check port",
      given: loadBalancer([{ ip: "192.0.2.1" }, { ip: "fd00::1", ipMode: "VIP" }], {
        externalTrafficPolicy: "Local",
        internalTrafficPolicy: "Local",
        healthCheckNodePort: 31000,
      }),
      want: {
        type: "LoadBalancer",
        loadBalancerIps: ["192.0.2.1", "fd00::1"] as IpAddress[],
        isExternalPolicyLocal: true,
        isInternalPolicyLocal: true,
        healthCheckNodePort: 31000,
      },
    },
    {
      name: "ignores ingress in mode Proxy or with only host names",
      given: loadBalancer([
        { ip: "192.0.2.1", ipMode: "Proxy" },
        { hostname: "lb.example" },
        { ip: "" },
      ]),
      want: { type: "LoadBalancer" },
    },
    {
      name: "trims source ranges, clears host bits and ignores blank ones",
      given: service({ spec: { loadBalancerSourceRanges: [" 10.1.2.3/8\n", "", "fd00::1/64"] } }),
      want: { sourceRanges: [cidr("10.0.0.0", 8), cidr("fd00::", 64)] },
    },
    {
      name: "lists each external IP once and ignores blank ones",
      given: service({ spec: { externalIPs: ["192.0.2.9", "", "192.0.2.09"] } }),
      want: { externalIps: ["192.0.2.9"] as IpAddress[] },
    },
    {
      name: "has no creation time if the object's is missing or invalid",
      given: service({ metadata: { creationTimestamp: "yesterday" } }),
      want: { createdAtSeconds: 0 },
    },
  ];
  for (const { name, given, want } of cases) {
    it(name, () => {
      const { record, reasons } = decode("services", given);
      assert.deepEqual(record, { ...web, ...want });
      assert.deepEqual(reasons, []);
    });
  }
});

describe("a Service for no proxy is skipped without a rejection", () => {
  const cases: readonly { readonly name: string; readonly given: ApiObject }[] = [
    { name: "headless", given: service({ clusterIps: ["None"] }) },
    { name: "without a cluster IP yet", given: service({ clusterIps: [] }) },
    { name: "ExternalName", given: service({ type: "ExternalName" }) },
    {
      name: "another proxy's",
      given: service({ labels: { "service.kubernetes.io/service-proxy-name": "" } }),
    },
  ];
  for (const { name, given } of cases) {
    it(name, () => {
      assert.deepEqual(decode("services", given), {
        record: undefined,
        refusals: [],
        reasons: [],
      });
    });
  }
});

describe("an invalid field of a Service is ignored, and the rest is used", () => {
  const cases: readonly {
    readonly name: string;
    readonly given: ApiObject;
    readonly want: Partial<ServiceRecord>;
    readonly reasons: readonly string[];
  }[] = [
    ...[0, 65_536, -1, 80.5, "80", Number.NaN, true, [80]].map((port) => ({
      name: `port ${JSON.stringify(port)}`,
      given: service({ ports: [servicePort({ name: "bad", port }), servicePort()] }),
      want: {},
      reasons: ["spec.ports[0].port invalid-port"],
    })),
    {
      name: "an unknown protocol",
      given: service({ ports: [servicePort(), servicePort({ name: "x", protocol: "ICMP" })] }),
      want: {},
      reasons: ["spec.ports[1].protocol unknown-protocol"],
    },
    {
      name: "a port that is not an object",
      given: service({ ports: [servicePort(), 80 as never, null as never] }),
      want: {},
      reasons: ["spec.ports[1] not-an-object", "spec.ports[2] not-an-object"],
    },
    {
      name: "a port name that would break a rule comment",
      given: service({ ports: [servicePort(), servicePort({ name: 'x" -j ACCEPT', port: 81 })] }),
      want: {},
      reasons: ["spec.ports[1].name invalid-name"],
    },
    {
      name: "a duplicate name or number",
      given: service({
        ports: [servicePort(), servicePort({ port: 81 }), servicePort({ name: "b" })],
      }),
      want: {},
      reasons: ["spec.ports[1] duplicate-port", "spec.ports[2] duplicate-port"],
    },
    {
      name: "a node port out of range",
      given: service({ type: "NodePort", ports: [servicePort({ nodePort: 70_000 })] }),
      want: { type: "NodePort" },
      reasons: ["spec.ports[0].nodePort invalid-port"],
    },
    {
      name: "a node port of a ClusterIP Service",
      given: service({ ports: [servicePort({ nodePort: 30080 })] }),
      want: {},
      reasons: ["spec.ports[0].nodePort node-port-without-type"],
    },
    {
      name: "a cluster IP of one family",
      given: service({ clusterIps: ["10.96.0.10", "fd00::zz"] }),
      want: {},
      reasons: ["spec.clusterIPs[1] invalid-cluster-ip"],
    },
    {
      name: "a cluster IP of the wrong family",
      given: service({
        clusterIps: ["10.96.0.10", "10.96.0.11"],
        spec: { ipFamilies: ["IPv4", "IPv6"] },
      }),
      want: {},
      reasons: ["spec.clusterIPs[1] cluster-ip-family"],
    },
    {
      name: "an unknown family",
      given: service({
        clusterIps: ["10.96.0.10", "fd00::1"],
        spec: { ipFamilies: ["IPv4", "IPv7"] },
      }),
      want: {},
      reasons: ["spec.ipFamilies[1] unknown-ip-family"],
    },
    {
      name: "external IPs that no node may serve",
      given: service({ spec: { externalIPs: ["127.0.0.1", "0.0.0.0", "ff02::1", "x", 7] } }),
      want: {},
      reasons: [
        "spec.externalIPs[0] special-address",
        "spec.externalIPs[1] special-address",
        "spec.externalIPs[2] special-address",
        "spec.externalIPs[3] invalid-external-ip",
        "spec.externalIPs[4] invalid-external-ip",
      ],
    },
    {
      name: "load-balancer IPs and modes",
      given: loadBalancer([{ ip: "192.0.2.1" }, { ip: "x" }, { ip: "192.0.2.2", ipMode: "Magic" }]),
      want: { type: "LoadBalancer", loadBalancerIps: ["192.0.2.1"] as IpAddress[] },
      reasons: [
        "status.loadBalancer.ingress[1].ip invalid-load-balancer-ip",
        "status.loadBalancer.ingress[2].ipMode unknown-ip-mode",
      ],
    },
    {
      name: "one source range of two",
      given: loadBalancer([{ ip: "192.0.2.1" }], {
        loadBalancerSourceRanges: ["10.0.0.0/8", "10.0.0.0/33"],
      }),
      want: {
        type: "LoadBalancer",
        loadBalancerIps: ["192.0.2.1"] as IpAddress[],
        sourceRanges: [cidr("10.0.0.0", 8)],
      },
      reasons: ["spec.loadBalancerSourceRanges[1] invalid-source-range"],
    },
    {
      name: "all source ranges: the load-balancer IP remains closed to all clients",
      given: loadBalancer([{ ip: "192.0.2.1" }], { loadBalancerSourceRanges: ["10.0.0.0/33"] }),
      want: { type: "LoadBalancer" },
      reasons: [
        "spec.loadBalancerSourceRanges[0] invalid-source-range",
        "spec.loadBalancerSourceRanges no-valid-source-range",
      ],
    },
    {
      name: "an affinity timeout",
      given: service({
        spec: {
          sessionAffinity: "ClientIP",
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 86_401 } },
        },
      }),
      want: { affinitySeconds: 10_800 },
      reasons: ["spec.sessionAffinityConfig.clientIP.timeoutSeconds invalid-affinity-timeout"],
    },
    {
      name: "unknown affinity and policies",
      given: service({
        spec: {
          sessionAffinity: "Cookie",
          internalTrafficPolicy: "Near",
          externalTrafficPolicy: 1,
        },
      }),
      want: {},
      reasons: [
        "spec.sessionAffinity unknown-session-affinity",
        "spec.externalTrafficPolicy unknown-traffic-policy",
        "spec.internalTrafficPolicy unknown-traffic-policy",
      ],
    },
    {
      name: "lists that are not lists",
      given: service({ spec: { externalIPs: "192.0.2.1", ipFamilies: {} } }),
      want: {},
      reasons: ["spec.ipFamilies not-a-list", "spec.externalIPs not-a-list"],
    },
  ];
  for (const { name, given, want, reasons } of cases) {
    it(name, () => {
      const decoding = decode("services", given);
      assert.deepEqual(decoding.record, { ...web, ...want });
      assert.deepEqual(decoding.reasons, reasons);
    });
  }
});

describe("a Service without any usable field is ignored completely", () => {
  const cases: readonly {
    readonly name: string;
    readonly given: ApiObject;
    readonly reasons: readonly string[];
  }[] = [
    {
      name: "without a valid cluster IP",
      given: service({ clusterIps: ["10.96.0.256"] }),
      reasons: ["spec.clusterIPs[0] invalid-cluster-ip", "no-cluster-ip"],
    },
    {
      name: "with a loopback cluster IP",
      given: service({ clusterIps: ["127.0.0.1"] }),
      reasons: ["spec.clusterIPs[0] special-address", "no-cluster-ip"],
    },
    {
      name: "without a valid port",
      given: service({ ports: [servicePort({ port: 0 })] }),
      reasons: ["spec.ports[0].port invalid-port", "no-usable-port"],
    },
    { name: "without ports", given: service({ ports: [] }), reasons: ["no-usable-port"] },
    {
      name: "of an unknown type",
      given: service({ type: "Mesh" }),
      reasons: ["spec.type unknown-service-type"],
    },
  ];
  for (const { name, given, reasons } of cases) {
    it(name, () => {
      const decoding = decode("services", given);
      assert.equal(decoding.record, undefined);
      assert.deepEqual(decoding.reasons, reasons);
    });
  }
});

it("reports an ignored field in one printable line", () => {
  const hostile = `10.0.0.1\n\u001b[31m${"\u202e"}${"x".repeat(10_000)}`;
  const { refusals } = decode("services", service({ clusterIps: [hostile] }));
  assert.equal(
    refusals[0]?.message,
    "Cannot use spec.clusterIPs[0] of Service default/web: " +
      `"10.0.0.1\\u{a}\\u{1b}[31m\\u{202e}${"x".repeat(45)}…" is not an IP address`,
  );
});
