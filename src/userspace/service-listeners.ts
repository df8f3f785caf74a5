import type { EndpointSliceRecord, ServiceRecord } from "../api/objects.ts";
import type { HostPort, IpAddress, IpFamily } from "../base/ip.ts";
import type { Endpoint } from "../model/endpoints.ts";
import { type ServicePort, servicePortName } from "../model/service-port.ts";
import { chooseEndpoints } from "../model/topology.ts";
import type { PortAdmission } from "../plan/claims/port-admission.ts";
import {
  type Frontend,
  frontendsOf,
  type ReservedAddress,
  unservedAddresses,
} from "../plan/frontends.ts";
import type { FamilyOptions, PlanOptions } from "../plan/options.ts";
import { admitWith, planPorts, servedPart } from "../plan/planner.ts";

/** An endpoint to which a connection can be forwarded. */
export interface Backend {
  readonly key: HostPort;
  readonly address: IpAddress;
  readonly port: number;
}

/** The desired state of a service port's listener in one family. */
export interface ServiceListener {
  /** Unique key, made of family, service port and protocol. */
  readonly key: string;
  readonly servicePort: ServicePort;
  readonly service: string;
  /** `namespace/name:port`. */
  readonly portName: string;
  readonly family: IpFamily;
  readonly protocol: "TCP" | "UDP";
  /**
   * The addresses and ports at which the Service may be served, with node ports at every node address; see
   * {@link frontendsOf}.
   */
  readonly frontends: readonly Frontend[];
  /** External and load-balancer IPs that no rule redirects to the listener. */
  readonly reserved: readonly ReservedAddress[];
  /** Cluster IP, external IPs and load-balancer IPs of {@link frontends}. */
  readonly addresses: readonly IpAddress[];
  /** If true, source ranges also apply to the node port. */
  readonly isNodePortRestricted: boolean;
  readonly port: number;
  /** 0 if there is no node port. */
  readonly nodePort: number;
  /** 0 means no session affinity. */
  readonly affinitySeconds: number;
  readonly backends: readonly Backend[];
  /** Keys of all serving endpoints, chosen or not. UDP clients may stay with these endpoints. */
  readonly serving: ReadonlySet<HostPort>;
}

/**
 * A Service's listeners. SCTP ports have none, because Node.js has no SCTP sockets. Yields after each slice and service
 * port. Pure.
 */
export function* serviceListenersInSteps(
  service: ServiceRecord,
  slices: Iterable<EndpointSliceRecord>,
  options: PlanOptions,
  admission?: Pick<PortAdmission, "admit">,
): Generator<void, readonly ServiceListener[]> {
  const known = [...slices];
  const served = servedPart(service, options);
  const { nodeName } = options.place;
  const listeners: ServiceListener[] = [];
  for (const [family, ofFamily] of options.families) {
    const planOne = (port: ServicePort, endpoints: readonly Endpoint[]): ServiceListener[] =>
      listenerOf(port, endpoints, { options, ofFamily });
    const place = { family, nodeName, admit: admitWith(admission, ofFamily) };
    const { servicePorts } = yield* planPorts(served, known, place, planOne);
    listeners.push(...servicePorts.flat());
  }
  return listeners;
}

function listenerOf(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  { options, ofFamily }: { readonly options: PlanOptions; readonly ofFamily: FamilyOptions },
): ServiceListener[] {
  const { family, protocol } = port;
  if (protocol === "SCTP") return [];
  const { cluster, local } = chooseEndpoints(endpoints, port, options.place);
  const nodePortAddresses = [...ofFamily.nodeAddresses];
  const frontends = frontendsOf(port, { ...ofFamily, nodePortAddresses });
  const virtual = frontends.filter(({ kind }) => kind !== "node-port");
  return [
    {
      key: listenerKey(port, family),
      servicePort: port,
      service: port.service,
      portName: servicePortName(port),
      family,
      protocol,
      frontends,
      reserved: unservedAddresses(port, ofFamily),
      addresses: [...new Set(virtual.map(({ address }) => address))],
      isNodePortRestricted: ofFamily.edges?.strictSourceRanges === true,
      port: port.port,
      nodePort: port.nodePort,
      affinitySeconds: port.affinitySeconds,
      backends: (cluster.length > 0 ? cluster : local).map(backendOf),
      serving: new Set(
        endpoints.filter(({ isReady, isServing }) => isReady || isServing).map(({ key }) => key),
      ),
    },
  ];
}

/** The key of a service port's listener. */
export function listenerKey(port: ServicePort, family: IpFamily): string {
  return `${family} ${servicePortName(port)}/${port.protocol}`;
}

/** Compares listeners in the order of their rules. */
export function byKey(
  one: Pick<ServiceListener, "key">,
  other: Pick<ServiceListener, "key">,
): number {
  return one.key < other.key ? -1 : 1;
}

function backendOf({ key, address, port }: Backend): Backend {
  return { key, address, port };
}
