/** Random Services, all with a cluster IP, a node port, a load-balancer IP and an external IP, with TCP and UDP. */
import type { IpFamily } from "../../src/base/ip.ts";
import { branch, client, guestNamed, node } from "../packet-paths/places.ts";
import { hostPort, podPort, servicePort } from "../packet-paths/services.ts";
import { type ApiObject, endpoint, endpointSlice, service, slicePort } from "../support/objects.ts";
import type { Draw } from "./draw.ts";
import { addressInIpv6 } from "./in-ipv6.ts";

/** An address behind the node's bridge that no pod has. */
export const missingPod = "10.244.8.77";
/** A port on which no pod listens. */
const wrongPort = 8099;

export interface DrawnService {
  readonly name: string;
  readonly number: number;
  readonly isLocal: boolean;
  readonly hasAffinity: boolean;
  readonly scheduler: string;
  readonly ranges: readonly string[];
  /** Places, or `missing`. */
  readonly endpoints: readonly string[];
  readonly port: number;
}

export type Frontend = "cluster IP" | "node port" | "load-balancer IP" | "external IP";

export function addressOf({ number }: DrawnService, frontend: Frontend): string {
  const addresses: Readonly<Record<Frontend, string>> = {
    "cluster IP": `10.96.0.${number}`,
    "node port": node.IPv4,
    "load-balancer IP": `203.0.113.${number}`,
    "external IP": `198.18.0.${number}`,
  };
  return addresses[frontend];
}

export function portOf({ number }: DrawnService, frontend: Frontend): number {
  return frontend === "node port" ? 30_000 + number : servicePort;
}

const endpointLists: readonly (readonly string[])[] = [
  ...[["local", "bridged", "remote"], ["local", "remote"], ["local", "bridged"], ["remote"]],
  ...[["local"], ["bridged"], ["node"], [], ["local", "missing"]],
];

export function drawServices(draw: Draw): readonly DrawnService[] {
  return endpointLists.map((endpoints, index) => {
    const number = 10 + index;
    const ranges = draw.isChosen(0.4)
      ? [draw.one([`${branch.IPv4}/32`, "192.168.10.0/24", `${client.IPv4}/32`, "10.244.0.0/16"])]
      : [];
    return {
      ...{ name: `s${number}`, number, endpoints, ranges },
      isLocal: draw.isChosen(0.4),
      hasAffinity: draw.isChosen(0.2),
      scheduler: draw.one(["rr", "rr", "sh", "dh", "mh", "wlc", "lc"]),
      port: endpoints.includes("node") ? hostPort : draw.isChosen(0.1) ? wrongPort : podPort,
    };
  });
}

export function objectsOf(services: readonly DrawnService[]): readonly ApiObject[] {
  return services.flatMap((one) => [serviceOf(one), sliceOf(one, "IPv4"), sliceOf(one, "IPv6")]);
}

function serviceOf(one: DrawnService): ApiObject {
  const policy = one.isLocal ? "Local" : "Cluster";
  return service({
    name: one.name,
    type: "LoadBalancer",
    clusterIps: both(addressOf(one, "cluster IP")),
    ports: ["TCP", "UDP"].map((protocol) => ({
      ...{ name: protocol.toLowerCase(), protocol, port: servicePort, targetPort: one.port },
      nodePort: portOf(one, "node port"),
    })),
    metadata: { annotations: { "kube-ipvs.io/scheduler": one.scheduler } },
    spec: {
      externalTrafficPolicy: policy,
      externalIPs: both(addressOf(one, "external IP")),
      ...(one.hasAffinity ? { sessionAffinity: "ClientIP" } : {}),
      ...(one.ranges.length === 0 ? {} : { loadBalancerSourceRanges: one.ranges.flatMap(both) }),
    },
    status: {
      loadBalancer: { ingress: both(addressOf(one, "load-balancer IP")).map((ip) => ({ ip })) },
    },
  });
}

/** An IPv4 address or network, and its counterpart in IPv6. */
function both(text: string): readonly string[] {
  return [text, addressInIpv6(text)];
}

function sliceOf({ name, endpoints, port }: DrawnService, addressType: IpFamily): ApiObject {
  return endpointSlice({
    service: name,
    ...{ name: `${name}-${addressType.toLowerCase()}`, addressType },
    endpoints: endpoints.map((place) =>
      endpoint(addressOfPlace(place, addressType), { nodeName: nodeOf(place) }),
    ),
    ports: ["TCP", "UDP"].map((protocol) => {
      return slicePort({ name: protocol.toLowerCase(), protocol, port });
    }),
  });
}

export function addressOfPlace(place: string, family: IpFamily): string {
  if (place === "missing") return family === "IPv4" ? missingPod : addressInIpv6(missingPod);
  return place === "node" ? node[family] : guestNamed(place).addresses[family];
}

function nodeOf(place: string): string {
  const isRemote =
    place !== "node" && place !== "missing" && guestNamed(place).attachment === "behind node-2";
  return isRemote ? "node-2" : "node-1";
}
