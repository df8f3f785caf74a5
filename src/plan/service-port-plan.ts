import type { IpAddress } from "../base/ip.ts";
import { none } from "../base/none.ts";
import { isFlagOf, schedulerFlagBits } from "../base/scheduler.ts";
import type { Endpoint } from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import {
  type ChosenEndpoints,
  chooseEndpoints,
  type NodePlace,
  noLocalEndpoints,
  type TrafficPolicy,
} from "../model/topology.ts";
import type { Tuning } from "../model/tuning.ts";
import type { RealServer } from "../state/real-server.ts";
import {
  type VirtualServer,
  type VirtualServerId,
  virtualServerFlags,
} from "../state/virtual-server.ts";
import {
  endpointsFor,
  type Frontend,
  type FrontendKind,
  frontendsOf,
  type ReservedAddress,
  reservedAddresses,
} from "./frontends.ts";
import type { FamilyOptions } from "./options.ts";
import { admitsNode, type PlannedSetEntry, setEntriesOf } from "./set-entries.ts";
import { spreadByNode } from "./spread.ts";
import { noTuningFacts, type TuningFacts } from "./tuning-facts.ts";
import { weightsOf } from "./weights.ts";

/** A virtual server as it should be, with its real servers in the order in which this node makes them, see spread.ts. */
export interface PlannedVirtualServer {
  readonly virtualServer: VirtualServer;
  /** Decides who has it where several Services want it, see claims/claim.ts. */
  readonly kind: FrontendKind;
  readonly realServers: readonly RealServer[];
  /**
   * UDP only: keys of all endpoints that serve, where some are not chosen (they terminate, or others are
   * nearer). Flows may stay there. Absent where there are none.
   */
  readonly stillServing?: ReadonlySet<string>;
  /** Seconds that a real server which leaves may keep its connections; absent: as configured. */
  readonly drainDeadlineSeconds?: number;
}

/** All that one service port wants of the kernel. */
export interface ServicePortPlan {
  readonly servicePort: ServicePort;
  readonly virtualServers: readonly PlannedVirtualServer[];
  readonly setEntries: readonly PlannedSetEntry[];
  /** To be bound to kube-ipvs0. */
  readonly addresses: readonly IpAddress[];
  /** External and load-balancer IPs that are not bound, or not served, for the node's safety. */
  readonly reserved: readonly ReservedAddress[];
  /** Load-balancer frontends that this node itself may not use, its address being in no source range. */
  readonly deniedToNode: readonly VirtualServerId[];
  /** The service port has traffic policy Local, usable endpoints somewhere, and none here. */
  readonly hasNoLocalEndpoints: Readonly<Record<TrafficPolicy, boolean>>;
}

/** What planning a service port needs besides itself and its endpoints. */
export interface ServicePortContext {
  readonly place: NodePlace;
  readonly options: FamilyOptions;
  readonly tuning: Tuning;
  readonly facts?: TuningFacts;
}

/** Plans one service port. Pure: equal input gives equal output, and nothing else is looked at. */
export function planServicePort(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  context: ServicePortContext,
): ServicePortPlan {
  const { options } = context;
  const frontends = frontendsOf(port, options);
  const chosen = chooseEndpoints(endpoints, port, context.place);
  return {
    servicePort: port,
    virtualServers: virtualServersOf(
      { port, context, serving: servingKeys(port, endpoints) },
      frontends,
      chosen,
    ),
    setEntries: setEntriesOf({ port, options }, frontends, endpoints),
    addresses: frontends.filter((frontend) => frontend.isBound).map((frontend) => frontend.address),
    reserved: reservedAddresses(port, options),
    deniedToNode: deniedToNode(port, frontends, options),
    hasNoLocalEndpoints: noLocalEndpoints(port, chosen),
  };
}

interface ServerBasis {
  readonly port: ServicePort;
  readonly context: ServicePortContext;
  readonly serving: ReadonlySet<string>;
}

function virtualServersOf(
  { port, context, serving }: ServerBasis,
  frontends: readonly Frontend[],
  chosen: ChosenEndpoints,
): readonly PlannedVirtualServer[] {
  const { tuning, facts = noTuningFacts } = context;
  const { drainDeadlineSeconds } = tuning;
  // Frontends that use the same endpoints share one list: with node ports there are many.
  const lists = new Map<readonly Endpoint[], readonly RealServer[]>();
  return frontends.map((frontend) => {
    const endpoints = endpointsFor(frontend, chosen);
    const realServers =
      lists.get(endpoints) ??
      realServersOf(spreadByNode(endpoints, context.place.nodeName), tuning, facts);
    lists.set(endpoints, realServers);
    return {
      virtualServer: virtualServerOf(port, frontend, tuning),
      kind: frontend.kind,
      realServers,
      ...(serving.size > realServers.length ? { stillServing: serving } : {}),
      ...(drainDeadlineSeconds === undefined ? {} : { drainDeadlineSeconds }),
    };
  });
}

/** Connections of other protocols have an end of their own. */
function servingKeys(port: ServicePort, endpoints: readonly Endpoint[]): ReadonlySet<string> {
  if (port.protocol !== "UDP") return new Set();
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

function onePacketFlag({ protocol }: ServicePort, { isOnePacket }: Tuning): number {
  return protocol === "UDP" && isOnePacket === true ? virtualServerFlags.onePacket : 0;
}

/** Upstream hashes with the source port under `mh`, so that one client's connections spread. */
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
  const { upper = 0, lower = 0 } = tuning.connectionLimit ?? {};
  const limit = upper > 0 ? { limit: { upper, lower } } : {};
  return endpoints.map(({ address, port }, index) => {
    return { address, port, weight: weights[index] ?? 1, forwardingMethod: 0, ...limit };
  });
}

function deniedToNode(
  port: ServicePort,
  frontends: readonly Frontend[],
  options: FamilyOptions,
): readonly VirtualServerId[] {
  if (port.sourceRanges.length === 0 || admitsNode(port, options)) return none;
  const kinds: readonly FrontendKind[] =
    options.edges?.areSourceRangesStrict === true
      ? ["load-balancer", "node-port"]
      : ["load-balancer"];
  return frontends
    .filter((frontend) => kinds.includes(frontend.kind))
    .map((frontend) => ({
      protocol: port.protocol,
      address: frontend.address,
      port: frontend.port,
    }));
}
