/**
 * The Services that receive packets. They are dual-stack with all four kinds of address, and use either SCTP, or TCP and
 * UDP.
 */
import type { IpFamily } from "../../src/base/ip.ts";
import type { Protocol } from "../../src/base/protocol.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  type ServiceOptions,
  service,
  slicePort,
} from "../support/objects.ts";
import type { Target } from "./path.ts";
import { type Addresses, branch, guestNamed, node, node2 } from "./places.ts";

export const servicePort = 80;
export const podPort = 8080;
/** Port of the endpoint in the host network. */
export const hostPort = 9090;
/** Contains {@link podPort}, because ports of a range are not translated. */
const portRange = "8000-8100";
/** A port that no Service has at any address. The node's own service listens there on all addresses. */
export const ownPort = 9999;

/** Kinds of Service addresses. */
export type Frontend = "cluster IP" | "node port" | "load-balancer IP" | "external IP";
export const frontends: readonly Frontend[] = [
  "cluster IP",
  "node port",
  "load-balancer IP",
  "external IP",
];

type Policy = "Cluster" | "Local";

const usualProtocols: readonly Protocol[] = ["TCP", "UDP"];

interface TestService {
  /** Places that are endpoints of the Service. `node` is the host network. */
  readonly endpoints: readonly string[];
  /** Applies to both traffic policies. */
  readonly policy?: Policy;
  readonly spec?: ServiceOptions["spec"];
  /** Whether the Service has only a cluster IP. */
  readonly isInternal?: boolean;
  /** By default TCP and UDP. */
  readonly protocols?: readonly Protocol[];
  /** The annotation `kube-ipvs.io/port-range`. */
  readonly portRange?: string;
  /** By default the Service has its own external IPs. */
  readonly externalIps?: Addresses;
}

/** Places that listen for SCTP. */
export const sctpEndpoints: readonly string[] = ["local", "remote"];

const affinity = (timeoutSeconds: number): ServiceOptions["spec"] => ({
  sessionAffinity: "ClientIP",
  sessionAffinityConfig: { clientIP: { timeoutSeconds } },
});

/** In seconds after the last new connection. Longer than IPVS remembers a closed connection. */
export const affinitySeconds = 12;

export type ServiceName =
  | "cluster"
  | "local"
  | "none-local"
  | "none-local-internal"
  | "empty"
  | "single"
  | "single-local"
  | "bridged"
  | "bridged-local"
  | "bridged-single"
  | "host"
  | "host-local"
  | "ranges"
  | "ranges-node"
  | "ranges-ipv4"
  | "narrow"
  | "remote-narrow"
  | "affinity"
  | "sctp"
  | "sctp-local"
  | "node-address"
  | "other-node-address"
  | "none-local-ranges"
  | "ports"
  | "ports-local"
  | "ports-ranges"
  | "unbound"
  | "unbound-local";

const table: Readonly<Record<ServiceName, TestService>> = {
  cluster: { endpoints: ["local", "remote"] },
  local: { endpoints: ["local", "remote"], policy: "Local" },
  "none-local": { endpoints: ["remote"], policy: "Local" },
  "none-local-internal": { endpoints: ["remote"], policy: "Local", isInternal: true },
  empty: { endpoints: [] },
  single: { endpoints: ["local"] },
  "single-local": { endpoints: ["local"], policy: "Local" },
  bridged: { endpoints: ["bridged", "remote"] },
  "bridged-local": { endpoints: ["bridged", "remote"], policy: "Local" },
  "bridged-single": { endpoints: ["bridged"] },
  host: { endpoints: ["node"] },
  "host-local": { endpoints: ["node"], policy: "Local" },
  ranges: {
    endpoints: ["local"],
    spec: { loadBalancerSourceRanges: [`${branch.IPv4}/32`, "fd00:20::/64"] },
  },
  "ranges-node": {
    endpoints: ["local"],
    spec: { loadBalancerSourceRanges: ["192.168.10.0/24", "fd00:10::/64"] },
  },
  "ranges-ipv4": {
    endpoints: ["local"],
    spec: { loadBalancerSourceRanges: [`${branch.IPv4}/32`] },
  },
  narrow: { endpoints: ["narrow"] },
  "remote-narrow": { endpoints: ["remote-narrow"] },
  affinity: { endpoints: ["local", "remote"], spec: affinity(affinitySeconds) },
  sctp: { endpoints: sctpEndpoints, protocols: ["SCTP"] },
  "sctp-local": { endpoints: sctpEndpoints, protocols: ["SCTP"], policy: "Local" },
  "node-address": { endpoints: ["local", "remote"], externalIps: node },
  "other-node-address": { endpoints: ["local", "remote"], externalIps: node2 },
  "none-local-ranges": {
    endpoints: ["remote"],
    policy: "Local",
    spec: { loadBalancerSourceRanges: [`${branch.IPv4}/32`, "fd00:20::/64"] },
  },
  ports: { endpoints: ["local", "remote"], portRange },
  "ports-local": { endpoints: ["local", "remote"], portRange, policy: "Local" },
  "ports-ranges": {
    endpoints: ["local"],
    portRange,
    spec: { loadBalancerSourceRanges: [`${branch.IPv4}/32`, "fd00:20::/64"] },
  },
  unbound: { endpoints: ["local", "remote"] },
  "unbound-local": { endpoints: ["local", "remote"], policy: "Local" },
};
const names = Object.keys(table) as readonly ServiceName[];

export interface Destination {
  readonly address: string;
  readonly port: number;
}

/** The address and port to which a client connects. */
export function destinationOf(
  name: ServiceName,
  frontend: Frontend,
  family: IpFamily,
): Destination {
  switch (frontend) {
    case "node port":
      return { address: node[family], port: nodePortOf(name) };
    case "cluster IP":
    case "load-balancer IP":
    case "external IP":
      return { address: addressesOf(name)[frontend][family], port: servicePort };
  }
}

/** As {@link destinationOf}, for any target of a path. */
export function destinationIn(target: Target, family: IpFamily): Destination {
  switch (target.kind) {
    case "service":
      return destinationOf(target.service, target.frontend, family);
    case "other-port": {
      const { address } = destinationOf(target.service, target.frontend, family);
      return { address, port: target.port };
    }
    case "loopback":
      return { address: loopback[family], port: target.port };
  }
}

const loopback: Addresses = { IPv4: "127.0.0.1", IPv6: "::1" };

export function nodePortOf(name: ServiceName): number {
  return 30_000 + numberOf(name);
}

function numberOf(name: ServiceName): number {
  return 10 + names.indexOf(name);
}

function addressesOf(
  name: ServiceName,
): Readonly<Record<Exclude<Frontend, "node port">, Addresses>> {
  const number = numberOf(name);
  return {
    "cluster IP": { IPv4: `10.96.0.${number}`, IPv6: `fd00:96::${number}` },
    "load-balancer IP": { IPv4: `203.0.113.${number}`, IPv6: `2001:db8:203::${number}` },
    "external IP": table[name].externalIps ?? {
      IPv4: `198.18.0.${number}`,
      IPv6: `fd00:198::${number}`,
    },
  };
}

/** Virtual IPs of the Services `unbound` and `unbound-local` that are on a link of other software. */
export const announced: readonly string[] = (["unbound", "unbound-local"] as const).flatMap(
  (name) =>
    (["cluster IP", "load-balancer IP"] as const).flatMap((frontend) =>
      Object.values(addressesOf(name)[frontend]),
    ),
);

/** Every Service with its slices, as an API server returns them. */
export function serviceObjects(): readonly ApiObject[] {
  return names.flatMap((name) => [serviceOf(name, table[name]), ...slicesOf(name, table[name])]);
}

function serviceOf(
  name: ServiceName,
  { policy = "Cluster", spec, isInternal, protocols, portRange: range }: TestService,
): ApiObject {
  const addresses = addressesOf(name);
  const ports = (protocols ?? usualProtocols).map((protocol) => ({
    name: protocol.toLowerCase(),
    protocol,
    port: servicePort,
    targetPort: podPort,
    ...(isInternal === true ? {} : { nodePort: nodePortOf(name) }),
  }));
  const clusterIps = Object.values(addresses["cluster IP"]);
  const internal = { internalTrafficPolicy: policy, ...spec };
  if (isInternal === true) return service({ name, clusterIps, ports, spec: internal });
  const annotations = range === undefined ? {} : { "kube-ipvs.io/port-range": range };
  const external = {
    externalTrafficPolicy: policy,
    externalIPs: Object.values(addresses["external IP"]),
  };
  const ingress = Object.values(addresses["load-balancer IP"]).map((ip) => ({ ip }));
  return service({
    ...{ name, type: "LoadBalancer", metadata: { annotations } },
    clusterIps,
    ports,
    spec: { ...internal, ...external },
    status: { loadBalancer: { ingress } },
  });
}

function slicesOf(name: ServiceName, { endpoints, protocols }: TestService): readonly ApiObject[] {
  return (["IPv4", "IPv6"] as const).map((family) =>
    endpointSlice({
      name: `${name}-${family.toLowerCase()}`,
      service: name,
      addressType: family,
      endpoints: endpoints.map((place) => endpointAt(place, family)),
      ports: (protocols ?? usualProtocols).map((protocol) =>
        slicePort({
          name: protocol.toLowerCase(),
          protocol,
          port: endpoints.includes("node") ? hostPort : podPort,
        }),
      ),
    }),
  );
}

function endpointAt(place: string, family: IpFamily): ReturnType<typeof endpoint> {
  if (place === "node") return endpoint(node[family], { nodeName: "node-1" });
  const { attachment, addresses } = guestNamed(place);
  const nodeName = attachment === "behind node-2" ? "node-2" : "node-1";
  return endpoint(addresses[family], { nodeName });
}
