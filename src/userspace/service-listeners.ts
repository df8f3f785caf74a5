import type { EndpointSliceRecord, ServiceRecord } from "../api/objects.ts";
import { type IpAddress, type IpFamily, ipFamilies } from "../base/ip.ts";
import { endpointPortKey, mergeSlices } from "../model/endpoints.ts";
import { type ServicePort, servicePortName } from "../model/service-port.ts";
import { servicePortsOf } from "../model/service-ports.ts";
import { chooseEndpoints, type NodePlace } from "../model/topology.ts";

/** Where a connection can be sent. */
export interface Backend {
  /** `address:port`. */
  readonly key: string;
  readonly address: IpAddress;
  readonly port: number;
}

/** What one listener shall do: it stands for one service port in one family. */
export interface ServiceListener {
  /** Unique: family, service port and protocol. */
  readonly key: string;
  readonly servicePort: ServicePort;
  readonly service: string;
  /** `namespace/name:port`. */
  readonly portName: string;
  readonly family: IpFamily;
  readonly protocol: "TCP" | "UDP";
  /** Cluster IP, external IPs and load-balancer IPs. */
  readonly addresses: readonly IpAddress[];
  readonly port: number;
  /** 0 when there is none. */
  readonly nodePort: number;
  /** 0 without session affinity. */
  readonly affinitySeconds: number;
  readonly backends: readonly Backend[];
  /** Keys of all endpoints that still serve, whether connections begin there or not: UDP clients may stay. */
  readonly serving: ReadonlySet<string>;
}

/** The listeners of a Service; SCTP has none, since Node.js has no such sockets. Pure. */
export function serviceListeners(
  service: ServiceRecord,
  slices: Iterable<EndpointSliceRecord>,
  place: NodePlace,
): readonly ServiceListener[] {
  const known = [...slices];
  return ipFamilies.flatMap((family) => {
    const endpoints = mergeSlices(known, family, place.nodeName);
    return servicePortsOf(service, family).flatMap((port): readonly ServiceListener[] => {
      const { protocol } = port;
      if (protocol === "SCTP") return [];
      const ofPort = endpoints.get(endpointPortKey({ name: port.portName, protocol })) ?? [];
      const { cluster, local } = chooseEndpoints(ofPort, port, place);
      const portName = servicePortName(port);
      const addresses = [port.clusterIp, ...port.externalIps, ...port.loadBalancerIps];
      return [
        {
          key: listenerKey(port, family),
          servicePort: port,
          service: service.name,
          portName,
          family,
          protocol,
          addresses: [...new Set(addresses)],
          port: port.port,
          nodePort: port.nodePort,
          affinitySeconds: port.affinitySeconds,
          backends: (cluster.length > 0 ? cluster : local).map(backendOf),
          serving: new Set(
            ofPort.filter(({ isReady, isServing }) => isReady || isServing).map(({ key }) => key),
          ),
        },
      ];
    });
  });
}

/** Of the listener that serves a service port. */
export function listenerKey(port: ServicePort, family: IpFamily): string {
  return `${family} ${servicePortName(port)}/${port.protocol}`;
}

/** In this order their rules stand. */
export function byKey(
  one: Pick<ServiceListener, "key">,
  other: Pick<ServiceListener, "key">,
): number {
  return one.key < other.key ? -1 : 1;
}

function backendOf({ key, address, port }: Backend): Backend {
  return { key, address, port };
}
