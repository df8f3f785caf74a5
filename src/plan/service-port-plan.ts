import type { IpAddress } from "../base/ip.ts";
import { none } from "../base/none.ts";
import { isFlagOf, schedulerFlagBits } from "../base/scheduler.ts";
import type { Endpoint } from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import { type ChosenEndpoints, chooseEndpoints, type NodePlace } from "../model/topology.ts";
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

/** A virtual server as it should be, with its real servers sorted by address and port text. */
export interface PlannedVirtualServer {
  readonly virtualServer: VirtualServer;
  /** Decides who has it where several Services want it, see claims.ts. */
  readonly kind: FrontendKind;
  readonly realServers: readonly RealServer[];
  /**
   * UDP only: keys of all endpoints that serve, where some are not chosen (they terminate, or others are
   * nearer). Flows may stay there. Absent where there are none.
   */
  readonly stillServing?: ReadonlySet<string>;
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
  readonly hasNoLocalEndpoints: { readonly internal: boolean; readonly external: boolean };
}

/** What planning a service port needs besides itself and its endpoints. */
export interface ServicePortContext {
  readonly place: NodePlace;
  readonly options: FamilyOptions;
  readonly tuning: Tuning;
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
      { port, tuning: context.tuning, serving: servingKeys(port, endpoints) },
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
  readonly tuning: Tuning;
  readonly serving: ReadonlySet<string>;
}

function virtualServersOf(
  { port, tuning, serving }: ServerBasis,
  frontends: readonly Frontend[],
  chosen: ChosenEndpoints,
): readonly PlannedVirtualServer[] {
  // Frontends that use the same endpoints share one list: with node ports there are many.
  const lists = new Map<readonly Endpoint[], readonly RealServer[]>();
  return frontends.map((frontend) => {
    const endpoints = endpointsFor(frontend, chosen);
    const realServers = lists.get(endpoints) ?? endpoints.map(realServerOf);
    lists.set(endpoints, realServers);
    return {
      virtualServer: virtualServerOf(port, frontend, tuning),
      kind: frontend.kind,
      realServers,
      ...(serving.size > realServers.length ? { stillServing: serving } : {}),
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
    flags: flagsOf(tuning),
  };
}

/** Upstream hashes with the source port under `mh`, so that one client's connections spread. */
function flagsOf({ scheduler, schedulerFlags }: Tuning): number {
  if (schedulerFlags === undefined)
    return scheduler === "mh" ? virtualServerFlags.schedulerPort : 0;
  return schedulerFlags
    .filter((flag) => isFlagOf(scheduler, flag))
    .reduce((bits, flag) => bits | schedulerFlagBits[flag], 0);
}

function realServerOf(endpoint: Endpoint): RealServer {
  return { address: endpoint.address, port: endpoint.port, weight: 1, forwardingMethod: 0 };
}

function deniedToNode(
  port: ServicePort,
  frontends: readonly Frontend[],
  options: FamilyOptions,
): readonly VirtualServerId[] {
  if (port.sourceRanges.length === 0 || admitsNode(port, options)) return none;
  return frontends
    .filter((frontend) => frontend.kind === "load-balancer")
    .map((frontend) => ({
      protocol: port.protocol,
      address: frontend.address,
      port: frontend.port,
    }));
}

const nowhereMissing = { internal: false, external: false } as const;

function noLocalEndpoints(
  port: ServicePort,
  { local, hasUsable }: ChosenEndpoints,
): { readonly internal: boolean; readonly external: boolean } {
  if (!hasUsable || local.length > 0) return nowhereMissing;
  const { isInternalPolicyLocal: internal, isExternalPolicyLocal: external } = port;
  return internal || external ? { internal, external } : nowhereMissing;
}
