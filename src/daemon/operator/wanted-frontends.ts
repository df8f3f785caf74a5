/**
 * Lists the frontends of Services. In IPVS mode they come from the plan. In other modes they come from the objects,
 * with endpoints chosen by the same rules. Pure.
 */

import type { Destination } from "../../answer/answers.ts";
import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../../api/objects.ts";
import { familyOf, type IpFamily, wildcardAddresses } from "../../base/ip.ts";
import {
  type Endpoint,
  type EndpointsByPort,
  endpointPortKey,
  mergeSlices,
} from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { servicePortsOf } from "../../model/service-ports.ts";
import { chooseEndpoints } from "../../model/topology.ts";
import { askedFrontends, type FrontendKind, isPolicyLocal } from "../../plan/frontends.ts";
import type { Preference } from "../../plan/preference.ts";
import type { ServicePortPlan } from "../../plan/service-port-plan.ts";
import { isTunnel, type RealServerId, realServerKey } from "../../state/real-server.ts";
import { type ServedRange, serves } from "../../state/served-range.ts";
import {
  type ServerKey,
  type VirtualServer,
  virtualServerKey,
} from "../../state/virtual-server.ts";
import { type DaemonView, type ObjectsView, objectsOf } from "./daemon-view.ts";

/** An address and port of a Service, with all the data for a row. */
export interface WantedFrontend {
  readonly record: ServiceRecord;
  readonly servicePort: ServicePort;
  readonly kind: FrontendKind;
  readonly server: Pick<
    VirtualServer,
    "protocol" | "address" | "port" | "persistenceTimeoutSeconds"
  > & {
    readonly scheduler: string;
  };
  /** The virtual server's key. */
  readonly key: ServerKey;
  /** The packets that the virtual server serves. Undefined unless it has a firewall mark. */
  readonly range?: ServedRange;
  /** Undefined if the Service has no topology preference, or if its traffic policy is Local. */
  readonly preference?: Preference;
  /** Number of nodes to which packets are forwarded through tunnels. Undefined without tunnel forwarding. */
  readonly tunnelNodes?: number;
  /** Whether the address is left to other software on the node (`kubeIpvs.unboundAddresses`). */
  readonly isHeld?: true;
  /** The planned real servers. Their weights are undefined in modes without virtual servers. */
  readonly realServers: readonly (RealServerId & { readonly weight?: number })[];
  /** All endpoints in the slices for this port, ready or not. */
  readonly endpoints: () => readonly Endpoint[];
}

/** Frontends in the order of `names`, then of each Service's ports. */
export function* wantedFrontends(
  view: DaemonView | ObjectsView,
  names: Iterable<ServiceName>,
): Generator<WantedFrontend> {
  const objects = objectsOf(view);
  for (const name of names) {
    const record = objects.service(name);
    if (record === undefined) continue;
    for (const family of view.families) {
      const endpointsOf = endpointsByPort(objects.slicesOf(name), family, view.config.nodeName);
      const frontends =
        view.mode === "ipvs"
          ? plannedFrontends(view.plan.desired.plansOf(name, family))
          : objectFrontends(view, servicePortsOf(record, family), family, endpointsOf);
      for (const frontend of frontends) {
        const { servicePort, server } = frontend;
        const key = virtualServerKey(server);
        const { range } = frontend;
        const endpoints = (): readonly Endpoint[] =>
          range === undefined ? endpointsOf(servicePort) : anyPort(endpointsOf(servicePort));
        yield { record, ...frontend, key, endpoints };
      }
    }
  }
}

/** Finds the frontends that have an address and port. Yields after each Service, because there may be many. */
export function* findFrontends(
  view: DaemonView | ObjectsView,
  names: Iterable<ServiceName>,
  destination: Destination,
): Generator<void, readonly WantedFrontend[]> {
  const found: WantedFrontend[] = [];
  for (const name of names) {
    yield;
    const ports = objectsOf(view).service(name)?.ports ?? [];
    // A cheap check that excludes nearly all Services. It cannot be used in IPVS mode, in which Services may have port
    // ranges.
    const mayHave =
      view.mode === "ipvs" ||
      ports.some(({ port, nodePort }) => [port, nodePort].includes(destination.port));
    if (!mayHave) continue;
    for (const one of wantedFrontends(view, [name])) {
      if (isAt(view, one, destination)) found.push(one);
    }
  }
  return found;
}

function isAt(
  view: DaemonView | ObjectsView,
  { server, range, servicePort, kind }: WantedFrontend,
  { protocol, address, port }: Destination,
): boolean {
  if (range !== undefined) {
    const isOf = range.address === address && range.protocols.some((one) => one === protocol);
    return isOf && range.ranges.some(({ first, last }) => first <= port && port <= last);
  }
  if (server.protocol !== protocol || servicePort.family !== familyOf(address)) return false;
  if (server.address === address && server.port === port) return true;
  // A cluster IP or node port has a single row, whichever of its addresses is requested.
  if (view.mode === "ipvs" || (kind !== "cluster-ip" && kind !== "node-port")) return false;
  return view
    .frontends(servicePort, servicePort.family)
    .some((own) => own.kind === kind && own.port === port && (own.address ?? address) === address);
}

/** The real servers of a port range, without duplicates: one for each address, with port 0. */
function anyPort(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const byAddress = new Map(endpoints.map((endpoint) => [endpoint.address, endpoint]));
  return [...byAddress.values()].map((endpoint) => {
    const id = { address: endpoint.address, port: 0 };
    return { ...endpoint, ...id, key: realServerKey(id) };
  });
}

type Frontend = Pick<
  WantedFrontend,
  | "servicePort"
  | "kind"
  | "server"
  | "range"
  | "preference"
  | "tunnelNodes"
  | "isHeld"
  | "realServers"
>;

function* plannedFrontends(plans: readonly ServicePortPlan[]): Generator<Frontend> {
  for (const { servicePort, virtualServers, held, preference } of plans) {
    const { protocol, affinitySeconds: persistenceTimeoutSeconds } = servicePort;
    for (const { kind, ...at } of held) {
      const server = { protocol, ...at, scheduler: "", persistenceTimeoutSeconds };
      yield { servicePort, kind, server, isHeld: true, realServers: [] };
    }
    for (const { kind, virtualServer: server, realServers, range } of virtualServers) {
      if (range?.tunnel !== undefined) continue;
      const out = virtualServers.find(
        ({ range: other }) => other?.tunnel?.end === "out" && serves(other, server),
      );
      const isPreferring = preference !== undefined && !isPolicyLocal(servicePort, kind);
      yield {
        ...{ servicePort, kind, server, realServers },
        ...(range === undefined ? {} : { range }),
        ...(isPreferring ? { preference } : {}),
        ...(out === undefined ? {} : { tunnelNodes: out.realServers.filter(isTunnel).length }),
      };
    }
  }
}

function* objectFrontends(
  view: ObjectsView,
  servicePorts: readonly ServicePort[],
  family: IpFamily,
  endpointsOf: (port: ServicePort) => readonly Endpoint[],
): Generator<Frontend> {
  for (const servicePort of servicePorts) {
    const { protocol, affinitySeconds: persistenceTimeoutSeconds } = servicePort;
    const chosen = chooseEndpoints(endpointsOf(servicePort), servicePort, view.place);
    for (const { kind, ...at } of askedFrontends(servicePort, [wildcardAddresses[family]])) {
      const realServers = view.choose(chosen, isPolicyLocal(servicePort, kind));
      const { scheduler } = view;
      const server = { protocol, ...at, scheduler, persistenceTimeoutSeconds };
      yield { servicePort, kind, server, realServers };
    }
  }
}

/**
 * Returns a function that finds the endpoints of a service port. Its first call merges the slices, as planning does.
 */
function endpointsByPort(
  slices: Iterable<EndpointSliceRecord>,
  family: IpFamily,
  nodeName: string,
): (port: ServicePort) => readonly Endpoint[] {
  let byPort: EndpointsByPort | undefined;
  return ({ portName: name, protocol }) => {
    byPort ??= mergeSlices(slices, family, nodeName);
    return byPort.get(endpointPortKey({ name, protocol })) ?? [];
  };
}
