/** Services that use the abilities of docs/tuning.md, with endpoints. Walks begin with them and change them. */
import type { NamedObject } from "../memory-source.ts";
import { type ApiObject, endpoint, endpointSlice, service, servicePort } from "../objects.ts";

const local = { IPv4: "10.244.1.1", IPv6: "fd00:244:1::1" };
const others = {
  IPv4: ["10.244.2.1", "10.244.2.2", "10.244.2.3"],
  IPv6: ["fd00:244:2::1", "fd00:244:2::2", "fd00:244:2::3"],
};
const families = ["IPv4", "IPv6"] as const;

function slicesOf(owner: string): readonly ApiObject[] {
  return families.map((family, index) =>
    endpointSlice({
      name: `${owner}-${["x", "y"][index]}`,
      service: owner,
      endpoints: [
        endpoint(local[family], { nodeName: "node-1" }),
        ...others[family].map((address) => endpoint(address, { nodeName: "node-2" })),
      ],
    }),
  );
}

/** `host`: the end of the cluster IPs, as in random-cluster/services.ts. */
function abilityService(
  name: string,
  host: number,
  annotations: Readonly<Record<string, string>>,
  ingress: readonly string[] = [],
  sourceRanges: readonly string[] = [],
): readonly ApiObject[] {
  return [
    service({
      name,
      type: ingress.length === 0 ? "NodePort" : "LoadBalancer",
      clusterIps: [`10.96.0.${host}`, `fd00:96::${host}`],
      ports: [servicePort({ nodePort: 30_070 + host })],
      spec: {
        sessionAffinity: name === "a" ? "ClientIP" : "None",
        loadBalancerSourceRanges: sourceRanges,
      },
      status: { loadBalancer: { ingress: ingress.map((ip) => ({ ip })) } },
      metadata: {
        annotations: Object.fromEntries(
          Object.entries(annotations).map(([key, value]) => [`kube-ipvs.io/${key}`, value]),
        ),
      },
    }),
    ...slicesOf(name),
  ];
}

export const abilityObjects: readonly NamedObject[] = [
  ...abilityService(
    ...(["a", 11, { "port-range": "80,7000-7100" }] as const),
    ["203.0.113.1", "2001:db8:1::1"],
    ["192.0.2.0/24", "2001:db8:100::/48"],
  ),
  ...abilityService("b", 12, { scheduler: "wrr", weights: "http=:8080/weight" }),
  ...abilityService("c", 13, { "prefer-topology": "example.com/rack,minimum=0%" }),
  ...abilityService("d", 14, { forwarding: "tunnel" }, ["203.0.113.2"], ["192.0.2.0/24"]),
] as unknown as readonly NamedObject[];
