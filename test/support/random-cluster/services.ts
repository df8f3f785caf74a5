/** Services of every kind, valid and invalid. */
import fc from "fast-check";
import { type ApiObject, service, servicePort } from "../objects.ts";
import { type Fields, mostly, namespaces, present, serviceNames, sometimes } from "./fields.ts";

const policies = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom("Cluster", "Local") },
  { weight: 1, arbitrary: fc.constantFrom("Nearby", undefined) },
);

const servicePorts: fc.Arbitrary<readonly Fields[]> = fc.array(
  fc
    .tuple(
      mostly<Fields>(
        [
          { name: "http", port: 80 },
          { name: "http", port: 81 },
          { name: "https", port: 443 },
          { name: "dns", port: 53, protocol: "UDP" },
          { name: "dns", port: 53 },
          { name: "quic", port: 443, protocol: "UDP" },
          { name: "sctp", port: 80, protocol: "SCTP" },
          { name: "", port: 80 },
        ],
        [
          { name: "bad", port: 70_000 },
          { name: "odd", port: 80, protocol: "DCCP" },
        ],
      ),
      mostly<unknown>([undefined, 30_080, 30_081, 30_082, 30_083], [0, 443, "30084"]),
    )
    .map(([port, nodePort]) => servicePort(present({ ...port, nodePort }))),
  { minLength: 1, maxLength: 3 },
);

/** The n-th Service's cluster IPs in its families. Rarely, those of the next Service or none. */
const clusterIps: fc.Arbitrary<(index: number) => readonly string[]> = fc
  .tuple(mostly(["4", "4", "6", "46", "64"], ["None", "4x"]), mostly([0], [1]))
  .map(([families, shift]) => (index: number): readonly string[] => {
    const host = 10 + index + shift;
    const [v4, v6] = [`10.96.0.${host}`, `fd00:96::${host}`];
    const byFamilies: Readonly<Record<string, readonly string[]>> = {
      "4": [v4],
      "6": [v6],
      "46": [v4, v6],
      "64": [v6, v4],
      "4x": [v4, "fd00:96::nonsense"],
    };
    return byFamilies[families] ?? ["None"];
  });

/**
 * An unused address; addresses of a Service, the node and its gateway; the broadcast address; and invalid addresses.
 */
const externalIps = fc.uniqueArray(
  mostly(
    ["198.51.100.1", "198.51.100.2", "2001:db8::1", "10.96.0.12", "203.0.113.1", "192.168.10.11"],
    ["192.168.10.1", "192.168.10.255", "fd00:10::11", "127.0.0.1", "300.1.1.1"],
  ),
  { minLength: 1, maxLength: 2 },
);

const ingress = fc.array(
  fc
    .tuple(
      mostly<Fields>(
        [
          { ip: "203.0.113.1" },
          { ip: "203.0.113.2" },
          { ip: "198.51.100.1" },
          { ip: "2001:db8:1::1" },
        ],
        [{ ip: "192.168.10.11" }, { hostname: "lb.example.org" }, { ip: "nonsense" }],
      ),
      mostly([undefined, "VIP"], ["Proxy", "Odd"]),
    )
    .map(([place, ipMode]) => present({ ...place, ipMode })),
  { maxLength: 2 },
);

const sourceRanges = fc.uniqueArray(
  mostly(
    ["10.0.0.0/8", "192.0.2.0/24", "192.168.10.11/32", "2001:db8::/32"],
    [" 192.168.10.0/24 ", "0.0.0.0/0", "::/0", "nonsense"],
  ),
  { maxLength: 3 },
);

const affinity: fc.Arbitrary<Fields> = fc
  .constantFrom(undefined, 1, 300, 90_000)
  .map((timeoutSeconds) => ({
    sessionAffinity: "ClientIP",
    sessionAffinityConfig: { clientIP: present({ timeoutSeconds }) },
  }));

const serviceSpecs: fc.Arbitrary<Fields> = fc
  .record({
    affinity: sometimes(affinity),
    externalIPs: sometimes(externalIps),
    loadBalancerSourceRanges: sometimes(sourceRanges),
    internalTrafficPolicy: policies,
    externalTrafficPolicy: policies,
    healthCheckNodePort: fc.constantFrom(undefined, 31_991, 31_992, 31_993),
  })
  .map(({ affinity: fields, ...spec }) => present({ ...spec, ...fields }));

/** Connection limits are omitted, because `ipvsadm -S` does not print them. */
const annotations: fc.Arbitrary<Fields> = fc
  .record({
    scheduler: fc.constantFrom(undefined, undefined, "wrr", "sh", "nonsense"),
    "one-packet": fc.constantFrom(undefined, undefined, "true"),
    "drain-deadline": fc.constantFrom(undefined, "0s", "1m", "soon"),
    weights: fc.constantFrom(undefined, undefined, "slice", "http=:8080/weight"),
    "outlier-ejection": fc.constantFrom(undefined, undefined, "30s"),
    // Only nodes with `kubeIpvs.portRangeMarks` serve ranges.
    "port-range": fc.constantFrom(undefined, undefined, "80,7000-7100", "50-90", "9-1"),
    // Only nodes with `kubeIpvs.tunnelForwarding` use tunnels.
    forwarding: fc.constantFrom(undefined, undefined, "tunnel", "tunnel", "direct"),
    "prefer-topology": fc.constantFrom(
      ...[undefined, undefined, "example.com/rack", "example.com/rack,minimum=0%", "a=b"],
    ),
    canary: fc.constantFrom(undefined, undefined, "slice=a-x,share=10%", "zone=z1,share=0%"),
  })
  .map((values) =>
    Object.fromEntries(
      Object.entries(present(values)).map(([name, value]) => [`kube-ipvs.io/${name}`, value]),
    ),
  );

/** Includes headless and ExternalName Services, and Services for another proxy. */
export const services: fc.Arbitrary<ApiObject> = fc
  .record({
    index: fc.nat(serviceNames.length - 1),
    type: mostly(["ClusterIP", "NodePort", "LoadBalancer"], ["ExternalName", "Mesh"]),
    addresses: clusterIps,
    ports: servicePorts,
    spec: serviceSpecs,
    ingress: sometimes(ingress),
    age: fc.constantFrom("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "yesterday"),
    isOfOther: mostly([false], [true]),
    namespace: namespaces,
    annotations: sometimes(annotations),
  })
  .map(({ index, type, addresses, ports, spec, age, isOfOther, namespace, ...rest }) =>
    service({
      name: serviceNames[index] as string,
      namespace,
      type,
      clusterIps: addresses(index),
      ports,
      spec,
      status: { loadBalancer: present({ ingress: rest.ingress }) },
      metadata: present({ creationTimestamp: age, annotations: rest.annotations }),
      labels: isOfOther ? { "service.kubernetes.io/service-proxy-name": "other" } : {},
    }),
  );
