import { cidrText, familyOf, type HostPort, type IpAddress } from "../base/ip.ts";
import { none, sharedIfEmpty } from "../base/none.ts";
import { isInRanges } from "../base/port-range.ts";
import { isFlagOf, schedulerFlagBits } from "../base/scheduler.ts";
import { type Endpoint, endpointPortKey } from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import {
  type ChosenEndpoints,
  chooseEndpoints,
  type NodePlace,
  noLocalEndpoints,
  type TrafficPolicy,
} from "../model/topology.ts";
import type { Tuning } from "../model/tuning.ts";
import { type RealServer, realServerKey } from "../state/real-server.ts";
import type { ServedRange } from "../state/served-range.ts";
import {
  type AddressServerId,
  markServerId,
  type ServerKey,
  type VirtualServer,
  virtualServerFlags,
  virtualServerKey,
} from "../state/virtual-server.ts";
import {
  type AskedFrontend,
  endpointsFor,
  type Frontend,
  type FrontendKind,
  frontendsOf,
  heldFrontends,
  type ReservedAddress,
  reservedAddresses,
} from "./frontends.ts";
import type { FamilyOptions } from "./options.ts";
import { rangeAt, rangeFrontends, rangeMark, type ServiceRanges } from "./port-ranges.ts";
import { type Preference, preferenceFor } from "./preference.ts";
import { admitsNode, type PlannedSetEntry, setEntriesOf } from "./set-entries.ts";
import { spreadByNode } from "./spread.ts";
import { noTuningFacts, type TuningFacts } from "./tuning-facts.ts";
import {
  isTunneled,
  localEndpoints,
  otherNode,
  servingNodes,
  throughNodes,
  tunnelServer,
} from "./tunnels.ts";
import { weightsOf } from "./weights.ts";

/** A desired virtual server, with its real servers in this node's creation order (see spread.ts). */
export interface PlannedVirtualServer {
  readonly virtualServer: VirtualServer;
  /** Decides which Service owns the virtual server if several request it; see claims/claim.ts. */
  readonly kind: FrontendKind;
  readonly realServers: readonly RealServer[];
  /**
   * Keys of endpoints whose connections may continue although the endpoints are not chosen. For UDP, these are all
   * serving endpoints; undefined if all of them are chosen. A serving endpoint is not chosen if it is terminating or
   * others are nearer. For TCP and SCTP, these are ready endpoints that a preference excludes.
   */
  readonly stillServing?: ReadonlySet<HostPort>;
  /** Seconds after which a drain ends despite open connections. If undefined, the configured drain deadline applies. */
  readonly drainDeadlineSeconds?: number;
  /** The packets that are marked for this virtual server. Undefined if it has an address instead of a mark. */
  readonly range?: ServedRange;
}

/** The desired kernel state of one service port. */
export interface ServicePortPlan {
  readonly servicePort: ServicePort;
  readonly virtualServers: readonly PlannedVirtualServer[];
  readonly setEntries: readonly PlannedSetEntry[];
  /** Addresses to bind to kube-ipvs0. */
  readonly addresses: readonly IpAddress[];
  /** External and load-balancer IPs that are not bound or not served, to protect the node. */
  readonly reserved: readonly ReservedAddress[];
  /**
   * Frontends within the Service's own port ranges. The virtual servers of the ranges serve them. They are claimed, so
   * that no Service with a weaker claim takes them.
   */
  readonly covered: readonly AskedFrontend[];
  /** Frontends that are not served because other software on the node has the address. */
  readonly held: readonly AskedFrontend[];
  /** Frontends that this node itself must not use, because no source range contains its address. */
  readonly deniedToNode: readonly AddressServerId[];
  /** True for a policy that is Local if usable endpoints exist but none are on this node. */
  readonly hasNoLocalEndpoints: Readonly<Record<TrafficPolicy, boolean>>;
  /** Undefined if the Service has no topology preference. */
  readonly preference?: Preference;
}

/** Planning input other than the service port and its endpoints. */
export interface ServicePortContext {
  readonly place: NodePlace;
  readonly options: FamilyOptions;
  readonly tuning: Tuning;
  readonly facts?: TuningFacts;
  /** Undefined if the Service has no port ranges. */
  readonly ranges?: ServiceRanges;
  /** Mask of the marks for tunnels. Undefined if the Service has none. */
  readonly tunnelMarks?: number;
  /** `endpointPortKey` of the service port whose plan contains the ranges. */
  readonly rangesPort?: string;
}

/** Plans one service port. Pure: the result depends only on the arguments. */
export function planServicePort(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  context: ServicePortContext,
): ServicePortPlan {
  const { options, tuning, facts = noTuningFacts } = context;
  const requested = frontendsOf(port, options);
  const near = chooseEndpoints(endpoints, port, context.place);
  const preference = preferenceFor(near.cluster, endpoints, tuning, facts);
  const chosen = without(preference?.excluded, near);
  const basis = { port, context, serving: servingKeys(port, endpoints, preference) };
  const ranged =
    context.ranges === undefined ? noFrontends : rangeFrontends(requested, context.ranges);
  const ranges = rangesFor(ranged, port, endpoints, context);
  // A port inside the Service's own range is served by the virtual server of the range, so that the port and the rest
  // of the range share session affinity. If another Service has that virtual server, the port is served as usual.
  const isServed = (frontend: Frontend): boolean =>
    !ranged.has(frontend) || !isServedByRange(frontend, context);
  const frontends = context.ranges === undefined ? requested : requested.filter(isServed);
  const ordinary = virtualServersOf(basis, frontends, chosen);
  return {
    servicePort: port,
    virtualServers: [
      ...ordinary,
      ...tunnelServersOf(basis, frontends, ordinary, endpoints, chosen),
      ...rangeServersOf(basis, ranges, endpoints, chosen),
    ],
    setEntries: setEntriesOf({ port, options }, requested, endpoints, isServed),
    addresses: requested.filter((frontend) => frontend.isBound).map((frontend) => frontend.address),
    reserved: reservedAddresses(port, options),
    covered: sharedIfEmpty(requested.filter((frontend) => !isServed(frontend))),
    held: heldFrontends(port, options),
    deniedToNode: deniedToNode(port, frontends, options),
    hasNoLocalEndpoints: noLocalEndpoints(port, chosen),
    ...(preference === undefined ? {} : { preference }),
  };
}

function without(
  excluded: ReadonlySet<HostPort> = new Set(),
  chosen: ChosenEndpoints,
): ChosenEndpoints {
  if (excluded.size === 0) return chosen;
  return { ...chosen, cluster: chosen.cluster.filter(({ key }) => !excluded.has(key)) };
}

interface ServerBasis {
  readonly port: ServicePort;
  readonly context: ServicePortContext;
  readonly serving: ReadonlySet<HostPort>;
}

function virtualServersOf(
  { port, context, serving }: ServerBasis,
  frontends: readonly Frontend[],
  chosen: ChosenEndpoints,
): readonly PlannedVirtualServer[] {
  const { tuning, facts: given = noTuningFacts } = context;
  const { drainDeadlineSeconds } = tuning;
  // Ejections apply only to TCP, because the kernel's counters do not show whether connections of other protocols fail.
  const facts = port.protocol === "TCP" ? given : { ...given, isEjected: noTuningFacts.isEjected };
  // Frontends with the same endpoints share one list of real servers, because a Service may have many node-port
  // addresses.
  const lists = new Map<readonly Endpoint[], readonly RealServer[]>();
  return frontends.map((frontend) => {
    const endpoints = endpointsFor(frontend, chosen);
    const realServers =
      lists.get(endpoints) ??
      realServersOf(spreadByNode(endpoints, context.place.nodeName), tuning, facts);
    lists.set(endpoints, realServers);
    // For UDP, the keys in `serving` include those of the chosen endpoints.
    const chosenCount = port.protocol === "UDP" ? realServers.length : 0;
    return {
      virtualServer: virtualServerOf(port, frontend, tuning),
      kind: frontend.kind,
      realServers,
      ...(serving.size > chosenCount ? { stillServing: serving } : {}),
      ...(drainDeadlineSeconds === undefined ? {} : { drainDeadlineSeconds }),
    };
  });
}

type RangeFrontend = Frontend & { readonly range: ServedRange };

const noFrontends: ReadonlySet<Frontend> = new Set();

function isServedByRange(
  { address, port }: Frontend,
  { ranges, facts = noTuningFacts }: ServicePortContext,
): boolean {
  if (ranges === undefined || !isInRanges(port, ranges.ranges)) return false;
  const server = markServerId(familyOf(address), rangeMark(address, ranges.marks));
  return facts.isRangeLost?.(virtualServerKey(server)) !== true;
}

function rangesFor(
  frontends: ReadonlySet<Frontend>,
  port: ServicePort,
  endpoints: readonly Endpoint[],
  { ranges, rangesPort, options }: ServicePortContext,
): readonly RangeFrontend[] {
  const key = endpointPortKey({ name: port.portName, protocol: port.protocol });
  if (ranges === undefined || key !== rangesPort) return none;
  return [...frontends].map((frontend) => ({
    ...frontend,
    range: rangeAt(frontend, ranges, port, options, endpoints),
  }));
}

/** Ranges drain like UDP services, because they may have UDP flows, which never end explicitly. */
function rangeServersOf(
  basis: ServerBasis,
  frontends: readonly RangeFrontend[],
  endpoints: readonly Endpoint[],
  chosen: ChosenEndpoints,
): readonly PlannedVirtualServer[] {
  if (frontends.length === 0) return none;
  const stillServing = new Set(
    endpoints
      .filter(({ isReady, isServing }) => isReady || isServing)
      .map(({ address }) => realServerKey({ address, port: 0 })),
  );
  return virtualServersOf(basis, frontends, chosen).map((planned, index) => {
    const { range } = frontends[index] as RangeFrontend;
    return {
      ...planned,
      virtualServer: { ...planned.virtualServer, ...markServerId(basis.port.family, range.mark) },
      realServers: anyPort(planned.realServers),
      stillServing,
      range,
    };
  });
}

/**
 * Plans the virtual servers for tunnels. Marks are hashes, so two frontends may have the same mark. A frontend whose
 * mark is already used has no tunnels.
 */
function tunnelServersOf(
  { port, context, serving }: ServerBasis,
  frontends: readonly Frontend[],
  ordinary: readonly PlannedVirtualServer[],
  endpoints: readonly Endpoint[],
  { cluster }: ChosenEndpoints,
): readonly PlannedVirtualServer[] {
  const { options, tuning, facts = noTuningFacts, tunnelMarks: marks } = context;
  if (marks === undefined) return none;
  const addressOf = otherNode(facts.nodeAddresses, port.family, options);
  const local = localEndpoints(endpoints);
  const all = realServersOf(cluster, tuning, facts);
  const out = {
    realServers: throughNodes(all, cluster, addressOf),
    stillServing: new Set([...serving, ...servingNodes(endpoints, addressOf)]),
  };
  const into = { realServers: realServersOf(local, tuning, facts), stillServing: serving };
  const isStrict = options.edges?.strictSourceRanges === true;
  const intoNodePort = {
    ...into,
    // If there is no local endpoint, use all endpoints, because no ordinary virtual server serves another node's
    // address.
    ...(local.length === 0 ? { realServers: all } : {}),
    sources: isStrict ? port.sourceRanges.map(cidrText) : none,
  };
  const servers = new Map<ServerKey, PlannedVirtualServer>();
  for (const [index, frontend] of frontends.entries()) {
    if (!isTunneled(frontend, options)) continue;
    const one = ordinary[index] as PlannedVirtualServer;
    for (const server of [
      tunnelServer(one, port, "out", out, marks),
      tunnelServer(one, port, "in", one.kind === "node-port" ? intoNodePort : into, marks),
    ]) {
      const key = virtualServerKey(server.virtualServer);
      if (!servers.has(key)) servers.set(key, server);
    }
  }
  return [...servers.values()];
}

/** Real servers for any port. Endpoints with the same address but different ports become one real server. */
function anyPort(realServers: readonly RealServer[]): readonly RealServer[] {
  const byAddress = new Map(realServers.map((server) => [server.address, { ...server, port: 0 }]));
  return [...byAddress.values()];
}

/** See `PlannedVirtualServer.stillServing`. Connections of protocols other than UDP end by themselves. */
function servingKeys(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  preference: Preference | undefined,
): ReadonlySet<HostPort> {
  if (port.protocol !== "UDP") return preference?.excluded ?? new Set();
  const serving = endpoints.filter(({ isReady, isServing }) => isReady || isServing);
  return new Set(serving.map(({ key }) => key));
}

function virtualServerOf(port: ServicePort, frontend: Frontend, tuning: Tuning): VirtualServer {
  return {
    protocol: port.protocol,
    address: frontend.address,
    port: frontend.port,
    scheduler: tuning.scheduler,
    persistenceTimeoutSeconds: port.affinitySeconds,
    persistencePrefixLength: port.family === "IPv4" ? 32 : 128,
    flags: flagsOf(tuning) | onePacketFlag(port, tuning),
  };
}

function onePacketFlag({ protocol }: ServicePort, { onePacket }: Tuning): number {
  return protocol === "UDP" && onePacket === true ? virtualServerFlags.onePacket : 0;
}

/** By default, `mh` hashes the source port too, as in kube-proxy, so that one client's connections are spread. */
function flagsOf({ scheduler, schedulerFlags }: Tuning): number {
  if (schedulerFlags === undefined)
    return scheduler === "mh" ? virtualServerFlags.schedulerPort : 0;
  return schedulerFlags
    .filter((flag) => isFlagOf(scheduler, flag))
    .reduce((bits, flag) => bits | schedulerFlagBits[flag], 0);
}

function realServersOf(
  endpoints: readonly Endpoint[],
  tuning: Tuning,
  facts: TuningFacts,
): readonly RealServer[] {
  const weights = weightsOf(endpoints, tuning, facts);
  const { upper = 0, lower = 0 } = tuning.maxConnections ?? {};
  const limit = upper > 0 ? { limit: { upper, lower } } : {};
  return endpoints.map(({ address, port }, index) => {
    return { address, port, weight: weights[index] ?? 1, forwardingMethod: 0, ...limit };
  });
}

function deniedToNode(
  port: ServicePort,
  frontends: readonly Frontend[],
  options: FamilyOptions,
): readonly AddressServerId[] {
  if (port.sourceRanges.length === 0) return none;
  const kinds: readonly FrontendKind[] =
    options.edges?.strictSourceRanges === true ? ["load-balancer", "node-port"] : ["load-balancer"];
  const restricted = frontends.filter((frontend) => kinds.includes(frontend.kind));
  if (restricted.length === 0 || admitsNode(port, options)) return none;
  return restricted.map((frontend) => ({
    protocol: port.protocol,
    address: frontend.address,
    port: frontend.port,
  }));
}
