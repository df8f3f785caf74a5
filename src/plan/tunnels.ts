/**
 * Tunnel forwarding: this node forwards clients' packets unchanged to nodes with endpoints, which reply directly to the
 * clients. Each address and port has two virtual servers with firewall marks: one for packets from clients, and one for
 * packets that other nodes forward. The ordinary virtual server of the address handles all other packets. Pure.
 */

import type { ServiceRecord } from "../api/objects.ts";
import {
  familyOf,
  type HostPort,
  type IpAddress,
  type IpFamily,
  wildcardAddresses,
} from "../base/ip.ts";
import { none } from "../base/none.ts";
import { schedulerFlagBits } from "../base/scheduler.ts";
import { tunnelName } from "../model/annotations.ts";
import type { Endpoint } from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { AnnotationProblem, Tuning } from "../model/tuning.ts";
import { type RealServer, realServerKey, tunnelMethod } from "../state/real-server.ts";
import type { ServedRange, Tunnel } from "../state/served-range.ts";
import {
  markServerId,
  type ServerKey,
  type VirtualServer,
  virtualServerKey,
} from "../state/virtual-server.ts";
import type { Frontend } from "./frontends.ts";
import type { FamilyOptions, PlanOptions } from "./options.ts";
import { rangeMark } from "./port-ranges.ts";
import type { PlannedVirtualServer } from "./service-port-plan.ts";
import type { TuningFacts } from "./tuning-facts.ts";
import { limited } from "./weights.ts";

/** Returns the address of another Node to which packets may be tunneled. */
type NodeAddress = (nodeName: string) => IpAddress | undefined;

/**
 * Finds other Nodes' addresses. Those that this node has are omitted, such as the address of its own earlier Node
 * object, because the kernel would deliver the packets to processes on this node.
 */
export function otherNode(
  nodes: TuningFacts["nodeAddresses"],
  family: IpFamily,
  { nodeAddresses: own }: Pick<FamilyOptions, "nodeAddresses">,
): NodeAddress {
  return (name) => nodes.get(name)?.find((one) => familyOf(one) === family && !own.has(one));
}

/**
 * Whether packets to the frontend are forwarded through tunnels. The other node must handle the destination address.
 * Bound addresses are local on every node. Of this node's node-port addresses, other nodes know only the one in its
 * Node object.
 */
export function isTunneled(
  { kind, isBound, address }: Frontend,
  { nodeIp }: Pick<FamilyOptions, "nodeIp">,
): boolean {
  return kind === "node-port" ? address === nodeIp : isBound && kind !== "cluster-ip";
}

/**
 * Replaces endpoints on other nodes by those nodes, with the sum of the endpoints' weights. Endpoints whose node has no
 * known address are not replaced; packets to them are masqueraded.
 */
export function throughNodes(
  realServers: readonly RealServer[],
  endpoints: readonly Endpoint[],
  addressOf: NodeAddress,
): readonly RealServer[] {
  const byKey = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]));
  const result = new Map<HostPort, RealServer>();
  for (const server of realServers) {
    const endpoint = byKey.get(realServerKey(server));
    const address = endpoint?.isLocal === false ? addressOf(endpoint.nodeName) : undefined;
    if (address === undefined) {
      result.set(realServerKey(server), server);
      continue;
    }
    const key = realServerKey({ address, port: 0 });
    const weight = (result.get(key)?.weight ?? 0) + server.weight;
    result.set(key, { address, port: 0, weight, forwardingMethod: tunnelMethod });
  }
  const servers = [...result.values()].sort(byServerKey);
  const weights = limited(servers.map(({ weight }) => weight));
  return servers.map((server, index) => ({ ...server, weight: weights[index] ?? 0 }));
}

/** An order that is the same on all nodes, because otherwise `mh` would not make the same choice on all nodes. */
function byServerKey(one: RealServer, other: RealServer): number {
  return realServerKey(one) < realServerKey(other) ? -1 : 1;
}

/** Keys of nodes with an endpoint that is ready or still serving. Connections through these nodes may continue. */
export function servingNodes(
  endpoints: readonly Endpoint[],
  addressOf: NodeAddress,
): readonly HostPort[] {
  return endpoints.flatMap(({ isReady, isServing, nodeName }) => {
    const address = addressOf(nodeName);
    const isUsed = (isReady || isServing) && address !== undefined;
    return isUsed ? [realServerKey({ address, port: 0 })] : [];
  });
}

/** The endpoints for packets that another node forwarded because this node has endpoints. */
export function localEndpoints(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const local = endpoints.filter(({ isLocal }) => isLocal);
  const ready = local.filter(({ isReady }) => isReady);
  return ready.length > 0 ? ready : local.filter(({ isServing }) => isServing);
}

/** One of the two virtual servers. `sources` restricts the clients of another node's node port; empty means all. */
export function tunnelServer(
  ordinary: PlannedVirtualServer,
  port: ServicePort,
  end: Tunnel["end"],
  {
    sources,
    ...content
  }: Pick<PlannedVirtualServer, "realServers" | "stillServing"> & Pick<ServedRange, "sources">,
  marks: number,
): PlannedVirtualServer {
  const { address, port: number } = ordinary.virtualServer;
  const hasServers = content.realServers.some(({ weight }) => weight > 0);
  // A node port has the same mark on every node. Otherwise, one node could tunnel its packets to a node on which another
  // Service has the mark.
  const place = ordinary.kind === "node-port" ? wildcardAddresses[port.family] : address;
  const mark = tunnelMark(
    virtualServerKey({ ...ordinary.virtualServer, address: place }),
    end,
    marks,
  );
  const range: ServedRange = {
    ...{ address, mark, masquerade: "local", localEndpoints: none },
    ranges: [{ first: number, last: number }],
    protocols: [port.protocol],
    tunnel: { end, hasServers, ...(sources === undefined ? {} : { isOfOtherNodes: true }) },
    ...(sources === undefined || sources.length === 0 ? {} : { sources }),
  };
  const virtualServer = { ...sticky(ordinary.virtualServer), ...markServerId(port.family, mark) };
  return { ...ordinary, ...content, virtualServer, range };
}

/**
 * Replaces session affinity by a hash of the client's address, because for a persistent virtual server with a firewall
 * mark, the kernel ignores the real servers' ports.
 */
function sticky(server: VirtualServer): VirtualServer {
  if (server.persistenceTimeoutSeconds === 0) return server;
  const flags = schedulerFlagBits["mh-fallback"];
  return { ...server, scheduler: "mh", flags, persistenceTimeoutSeconds: 0 };
}

/** The lowest bit distinguishes the two virtual servers. */
function tunnelMark(key: ServerKey, end: Tunnel["end"], marks: number): number {
  const lowest = (marks & -marks) >>> 0;
  const mark = rangeMark(key, (marks & ~lowest) >>> 0);
  return end === "out" ? mark : mark + lowest;
}

/** Explains why a Service's annotation has no effect. Undefined if packets are forwarded through tunnels. */
export function tunnelProblem(
  { annotations, isExternalPolicyLocal }: ServiceRecord,
  { isTunneled }: Tuning,
  tunnels: PlanOptions["tunnels"] = { problem: "kubeIpvs.tunnelForwarding is off" },
): AnnotationProblem | undefined {
  if (isTunneled !== true) return undefined;
  const message = isExternalPolicyLocal
    ? "externalTrafficPolicy is Local, which already keeps the client's address"
    : tunnels.problem;
  const value = annotations?.[tunnelName] ?? "";
  const reason = "annotation-without-effect";
  return message === undefined ? undefined : { annotation: tunnelName, value, reason, message };
}
