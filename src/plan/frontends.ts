import { type IpAddress, isLinkLocal } from "../base/ip.ts";
import { none } from "../base/none.ts";
import type { Endpoint } from "../model/endpoints.ts";
import { type ServicePort, servicePortName } from "../model/service-port.ts";
import type { ChosenEndpoints } from "../model/topology.ts";
import type { FamilyOptions, ReservedReason } from "./options.ts";

export type FrontendKind = "cluster-ip" | "external-ip" | "load-balancer" | "node-port";

/** One address and port under which a service port is reached. */
export interface Frontend {
  readonly kind: FrontendKind;
  readonly address: IpAddress;
  readonly port: number;
  /** The address goes to kube-ipvs0. */
  readonly isBound: boolean;
  /** Traffic policy Local applies. */
  readonly isLocal: boolean;
}

/** One that a service port asks for. */
export type AskedFrontend = Pick<Frontend, "kind" | "address" | "port">;

/**
 * Lists the frontends of a service port. Pure.
 *
 * | kind | address : port | bound to kube-ipvs0 | policy |
 * |---|---|---|---|
 * | cluster-ip | cluster IP : port | always | internal |
 * | external-ip | external IP : port | unless it is reserved | external |
 * | load-balancer | load-balancer IP : port | unless it is reserved | external |
 * | node-port | each node-port address : node port | never | external |
 *
 * None but a cluster IP is served at an API server's address and port, and nothing at a link-local address, that of
 * another Node or one that a pod may have.
 *
 * Reserved are the addresses without which the node loses its network, see {@link reservedReason}. Anyone
 * who may write a Service can name them.
 */
export function frontendsOf(port: ServicePort, options: FamilyOptions): readonly Frontend[] {
  const isLinked = options.isLinkDisabled !== true;
  return askedFrontends(port, options.nodePortAddresses)
    .filter((asked) => mayBeServed(port, asked, options))
    .map(({ kind, address, port: number }) => {
      const isBound = isLinked && kind !== "node-port";
      return {
        kind,
        address,
        port: number,
        isBound: isBound && (kind === "cluster-ip" || isFree(address, options)),
        isLocal: isPolicyLocal(port, kind),
      };
    });
}

/** All that a service port asks for, served or not; its node port at these addresses. */
export function askedFrontends(
  { clusterIp, port, externalIps, loadBalancerIps, nodePort }: ServicePort,
  nodeAddresses: readonly IpAddress[],
): readonly AskedFrontend[] {
  const at = (kind: FrontendKind, addresses: readonly IpAddress[]): readonly AskedFrontend[] =>
    addresses.map((address) => ({ kind, address, port: kind === "node-port" ? nodePort : port }));
  return [
    ...at("cluster-ip", [clusterIp]),
    ...at("external-ip", externalIps),
    ...at("load-balancer", loadBalancerIps),
    ...at("node-port", nodePort === 0 ? none : nodeAddresses),
  ];
}

/** Whether traffic policy Local applies to what comes in there. */
export function isPolicyLocal(port: ServicePort, kind: FrontendKind): boolean {
  return kind === "cluster-ip" ? port.isInternalPolicyLocal : port.isExternalPolicyLocal;
}

/**
 * A virtual server takes the node's own connections too, bound or not. So link-local addresses, behind which are the
 * node's neighbors and a cloud's metadata, get none. Neither do other Nodes' addresses, behind which are their
 * kubelets, nor those of pods; the others that are reserved as the configuration says. Cluster IPs are the cluster's to give: the API
 * server's own Service has one.
 */
function mayBeServed(
  { protocol, refusedAddresses }: ServicePort,
  { kind, address, port }: AskedFrontend,
  options: FamilyOptions,
): boolean {
  if (kind === "cluster-ip") return true;
  if (kind !== "node-port" && refusedAddresses?.includes(address) === true) return false;
  if (protocol === "TCP" && isApiServer(address, port, options)) return false;
  const reason = kind === "node-port" ? undefined : reservedReason(address, options);
  if (reason === undefined) return true;
  return isReasonServed(reason, options);
}

function isReasonServed(reason: ReservedReason, { isReservedRefused }: FamilyOptions): boolean {
  return !neverServed.has(reason) && isReservedRefused !== true;
}

const neverServed: ReadonlySet<ReservedReason> = new Set([
  "link-local-address",
  "other-node-address",
  "pod-address",
]);

function isFree(address: IpAddress, options: FamilyOptions): boolean {
  return reservedReason(address, options) === undefined;
}

function isApiServer(address: IpAddress, port: number, { apiServers }: FamilyOptions): boolean {
  return apiServers?.includes(`${address} ${port}`) === true;
}

/** An external or load-balancer IP that must not be bound to kube-ipvs0. */
export interface ReservedAddress {
  readonly address: IpAddress;
  readonly reason: ReservedReason;
  /** It has a virtual server, or rules; false: nothing leads there. */
  readonly isServed: boolean;
  /** The reason holds for this port; absent: for every port. */
  readonly port?: number;
}

/** And the service port that asks for it, as `namespace/name:port`. */
export interface OwnedReservedAddress extends ReservedAddress {
  readonly servicePort: string;
}

/** Lists those of a service port, each once. Pure. */
export function reservedAddresses(
  port: ServicePort,
  options: FamilyOptions,
): readonly ReservedAddress[] {
  if (port.externalIps.length + port.loadBalancerIps.length === 0) return none;
  const addresses = new Set([...port.externalIps, ...port.loadBalancerIps]);
  return [...addresses].flatMap((address) => {
    if (port.refusedAddresses?.includes(address) === true)
      return [{ address, reason: "node-process-port", isServed: false, port: port.port }];
    const isServer = port.protocol === "TCP" && isApiServer(address, port.port, options);
    const reason = isServer ? "api-server-address" : reservedReason(address, options);
    if (reason === undefined) return [];
    const isServed = !isServer && isReasonServed(reason, options);
    return [{ address, reason, isServed }];
  });
}

function reservedReason(
  address: IpAddress,
  { nodeAddresses, reserved, podNetworks }: FamilyOptions,
): ReservedReason | undefined {
  if (nodeAddresses.has(address)) return "node-address";
  const known = reserved?.get(address) ?? (isLinkLocal(address) ? "link-local-address" : undefined);
  return known ?? (podNetworks?.contains(address) === true ? "pod-address" : undefined);
}

/** Those of many service ports to which nothing leads. Pure. */
export function unservedAddresses(
  plans: Iterable<{
    readonly servicePort: ServicePort;
    readonly reserved: readonly ReservedAddress[];
  }>,
): readonly OwnedReservedAddress[] {
  return reservedOf(plans).filter(({ isServed }) => !isServed);
}

/** Those of many service ports. Pure. */
export function reservedOf(
  plans: Iterable<{
    readonly servicePort: ServicePort;
    readonly reserved: readonly ReservedAddress[];
  }>,
): readonly OwnedReservedAddress[] {
  return [...plans].flatMap(({ reserved, servicePort }) =>
    reserved.map((one) => ({ ...one, servicePort: servicePortName(servicePort) })),
  );
}

/**
 * The endpoints behind a frontend. With policy Local and no endpoint here the cluster's endpoints are
 * used, as upstream's IPVS mode does: clients on this node can then still reach the address.
 */
export function endpointsFor(frontend: Frontend, chosen: ChosenEndpoints): readonly Endpoint[] {
  return frontend.isLocal && chosen.local.length > 0 ? chosen.local : chosen.cluster;
}
