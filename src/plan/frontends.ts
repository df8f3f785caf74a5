import { hostPort, type IpAddress, isLinkLocal } from "../base/ip.ts";
import { none, sharedIfEmpty } from "../base/none.ts";
import type { Endpoint } from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { ChosenEndpoints } from "../model/topology.ts";
import type { FamilyOptions, ReservedReason } from "./options.ts";

export type FrontendKind = "cluster-ip" | "external-ip" | "load-balancer" | "node-port";

/** An address and port at which a service port can be reached. */
export interface Frontend {
  readonly kind: FrontendKind;
  readonly address: IpAddress;
  readonly port: number;
  /** Whether the address is bound to kube-ipvs0. */
  readonly isBound: boolean;
  /** Whether traffic policy Local applies. */
  readonly isLocal: boolean;
}

/** A frontend that a service port requests, whether or not it is served. */
export type AskedFrontend = Pick<Frontend, "kind" | "address" | "port">;

/**
 * Lists the frontends of a service port. Pure.
 *
 * | kind | address : port | bound to kube-ipvs0 | policy |
 * |---|---|---|---|
 * | cluster-ip | cluster IP : port | always | internal |
 * | external-ip | external IP : port | unless it is reserved or unbound | external |
 * | load-balancer | load-balancer IP : port | unless it is reserved or unbound | external |
 * | node-port | each node-port address : node port | never | external |
 *
 * Held cluster IPs are not served; see {@link heldFrontends}.
 *
 * Only cluster IPs are served at an API server's address and port. External and load-balancer IPs are not served at
 * link-local addresses, at other Nodes' addresses, or in pod CIDRs.
 *
 * Binding a reserved address would disconnect the node; see {@link reservedReason}. Anyone who may write a Service can
 * request one.
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
        isBound: isBound && (kind === "cluster-ip" || mayBeBound(address, options)),
        isLocal: isPolicyLocal(port, kind),
      };
    });
}

/** All frontends that a service port requests, served or not, with its node port at each of `nodeAddresses`. */
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

/** Whether traffic policy Local applies to traffic that arrives at frontends of this kind. */
export function isPolicyLocal(port: ServicePort, kind: FrontendKind): boolean {
  return kind === "cluster-ip" ? port.isInternalPolicyLocal : port.isExternalPolicyLocal;
}

/**
 * A virtual server also captures the node's own connections, whether or not its address is bound. Therefore external
 * and load-balancer IPs are never served if they are link-local addresses, which neighbors and cloud metadata services
 * use, or addresses of other Nodes (kubelets) or pods. For other reserved addresses, the configuration decides. Cluster
 * IPs are served unless they are held, because the cluster allocates them. This includes the cluster IP of the API
 * server's own Service.
 */
function mayBeServed(
  { protocol, unservedAddresses }: ServicePort,
  { kind, address, port }: AskedFrontend,
  options: FamilyOptions,
): boolean {
  if (kind === "cluster-ip") return !isHeld(address, options);
  if (kind !== "node-port" && unservedAddresses?.includes(address) === true) return false;
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

function mayBeBound(address: IpAddress, options: FamilyOptions): boolean {
  return !isUnbound(address, options) && reservedReason(address, options) === undefined;
}

function isUnbound(address: IpAddress, { unboundNetworks }: FamilyOptions): boolean {
  return unboundNetworks?.contains(address) === true;
}

/**
 * Lists the frontends that kube-ipvs leaves to a local process: cluster IPs in `kubeIpvs.unboundAddresses` that are on
 * a different link, such as that of node-local DNS. They have no virtual server, because IPVS would handle the packets
 * before they reach the process. If no other link has such an address, it is bound and served. Pure.
 */
export function heldFrontends(
  { clusterIp, port }: ServicePort,
  options: FamilyOptions,
): readonly AskedFrontend[] {
  return isHeld(clusterIp, options) ? [{ kind: "cluster-ip", address: clusterIp, port }] : none;
}

function isHeld(clusterIp: IpAddress, options: FamilyOptions): boolean {
  return options.nodeAddresses.has(clusterIp) && isUnbound(clusterIp, options);
}

function isApiServer(address: IpAddress, port: number, { apiServers }: FamilyOptions): boolean {
  return apiServers?.includes(hostPort(address, port)) === true;
}

/** An external or load-balancer IP that must not be bound to kube-ipvs0. */
export interface ReservedAddress {
  readonly address: IpAddress;
  readonly reason: ReservedReason;
  /** True if the address has a virtual server or rules. False if nothing is served there. */
  readonly isServed: boolean;
  /** The port to which the reason applies. If undefined, it applies to every port. */
  readonly port?: number;
}

/** A reserved address and the service port that requests it, as `namespace/name:port`. */
export interface OwnedReservedAddress extends ReservedAddress {
  readonly servicePort: string;
}

/** Lists the reserved addresses that a service port requests, each once. Pure. */
export function reservedAddresses(
  port: ServicePort,
  options: FamilyOptions,
): readonly ReservedAddress[] {
  if (port.externalIps.length + port.loadBalancerIps.length === 0) return none;
  const addresses = new Set([...port.externalIps, ...port.loadBalancerIps]);
  return [...addresses].flatMap((address) => {
    if (port.unservedAddresses?.includes(address) === true)
      return [{ address, reason: "node-process-port", isServed: false, port: port.port }];
    const isServer = port.protocol === "TCP" && isApiServer(address, port.port, options);
    const reason = isServer ? "api-server-address" : reservedReason(address, options);
    if (reason === undefined) return [];
    const isServed = !isServer && isReasonServed(reason, options);
    return [{ address, reason, isServed }];
  });
}

/** Why an address is reserved. An address in `kubeIpvs.unboundAddresses` may intentionally be on a different link. */
function reservedReason(address: IpAddress, options: FamilyOptions): ReservedReason | undefined {
  const { nodeAddresses, reserved, podNetworks } = options;
  if (nodeAddresses.has(address) && !isUnbound(address, options)) return "node-address";
  const known = reserved?.get(address) ?? (isLinkLocal(address) ? "link-local-address" : undefined);
  return known ?? (podNetworks?.contains(address) === true ? "pod-address" : undefined);
}

/** Lists a service port's reserved addresses that are not served. Only IPVS mode binds addresses. Pure. */
export function unservedAddresses(
  port: ServicePort,
  options: FamilyOptions,
): readonly ReservedAddress[] {
  return sharedIfEmpty(reservedAddresses(port, options).filter(({ isServed }) => !isServed));
}

/**
 * The endpoints behind a frontend. If its traffic policy is Local but there is no local endpoint, all endpoints are
 * used, as in kube-proxy's IPVS mode, so that clients on this node can still reach the address.
 */
export function endpointsFor(frontend: Frontend, chosen: ChosenEndpoints): readonly Endpoint[] {
  return frontend.isLocal && chosen.local.length > 0 ? chosen.local : chosen.cluster;
}
