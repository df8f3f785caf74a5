/** Creates packets that must be rejected, given the Services before and after a change. Pure. */
import type { ServiceRecord } from "../../../src/api/objects.ts";
import { cidrContains, familyOf, type IpAddress, type IpFamily } from "../../../src/base/ip.ts";
import type { Packet } from "../../../src/explain/packet/packet.ts";
import { tunnelLinks } from "../../../src/state/tunnel-link.ts";
import { ip } from "../records.ts";
import type { Fate } from "./judge.ts";
import { type Mode, otherNodes } from "./programs.ts";
import { isTunneled, rangePortsOf } from "./scenarios.ts";

export interface Probe {
  readonly name: string;
  readonly packet: Packet;
  /** Fates that the packet must not have. */
  readonly forbidden: readonly Fate[];
  /** Whether the packet may have a forbidden fate during a sync, but not after it. */
  readonly mayOpen?: true;
  /** Whether the packet only arrives while the link for tunnels exists. */
  readonly needsLink?: true;
}

/** Load balancer ports with their source ranges, by `address port`. */
type Ports = ReadonlyMap<
  string,
  {
    readonly address: IpAddress;
    readonly port: number;
    readonly nodePort: number;
    readonly hasTunnel: boolean;
  } & Ranges
>;
type Ranges = Pick<ServiceRecord, "sourceRanges">;

/** Clients for each family: one outside all ranges, one in the first, and one in the second. */
const clients: Readonly<Record<IpFamily, readonly IpAddress[]>> = {
  IPv4: [ip("192.0.2.7"), ip("198.51.100.7"), ip("203.0.113.207")],
  IPv6: [ip("2001:db8:2::7"), ip("2001:db8:100::7"), ip("2001:db8:207::7")],
};
const nodeIps: Readonly<Record<IpFamily, IpAddress>> = {
  IPv4: ip("192.168.10.11"),
  IPv6: ip("fd00:10::11"),
};
/** A port that no Service has, where a node process might listen. */
const otherPort = 10_250;

/**
 * Returns the probes for Services. A client outside the source ranges must reach neither an endpoint nor a node
 * process. Ranges also apply while a Service is being removed. No client may reach a node process at a Service address.
 */
export function probesOf(
  { name: mode }: Pick<Mode, "name">,
  before: readonly ServiceRecord[],
  after: readonly ServiceRecord[],
): readonly Probe[] {
  const ports = new Map([...portsOf(before), ...portsOf(after)]);
  const all = [...before, ...after];
  const probes = [...shutOut(ports), ...ownPorts(all), ...portsInRanges(all), ...otherPorts(all)];
  if (mode === "ipvs") return probes;
  // Virtual IPs are not node addresses, so the node's processes connect from its own addresses.
  return probes.map((one) => {
    const { family, isFromNode } = one.packet;
    return isFromNode ? withSource(one, nodeIps[family]) : one;
  });
}

function withSource(one: Probe, source: IpAddress): Probe {
  return { ...one, packet: { ...one.packet, source } };
}

function portsOf(services: readonly ServiceRecord[]): Ports {
  return new Map(
    services.flatMap((service) => {
      const { loadBalancerIps, sourceRanges } = service;
      const hasTunnel = isTunneled(service);
      const ports = [
        ...service.ports,
        ...rangePortsOf(service).map((port) => ({ port, nodePort: 0 })),
      ];
      return loadBalancerIps.flatMap((address) =>
        ports.map(({ port, nodePort }) => {
          const one = { address, port, nodePort, sourceRanges, hasTunnel };
          return [`${address} ${port}`, one] as const;
        }),
      );
    }),
  );
}

function shutOut(ports: Ports): readonly Probe[] {
  return [...ports.values()].flatMap(({ address, port, nodePort, sourceRanges, hasTunnel }) => {
    if (sourceRanges.length === 0) return [];
    const isAdmitted = (source: IpAddress): boolean =>
      sourceRanges.some((range) => cidrContains(range, source));
    const family = familyOf(address);
    const outside = clients[family].filter((source) => !isAdmitted(source));
    const fromNode = isAdmitted(nodeIps[family]) ? [] : [probe("node", address, port, forNobody)];
    const direct = outside.map((source) => probe(source, address, port, forNobody));
    if (!hasTunnel) return [...direct, ...fromNode];
    // Strict source ranges match the node's addresses, which do not include the address before it is bound.
    const fromAddress = fromNode.map((one) => withSource(one, nodeIps[family]));
    const atNodePort = outside.map((source): Probe => {
      const node = probe(source, otherNodes[family], nodePort, forNobody);
      return { ...throughTunnel(node), needsLink: true };
    });
    return [...direct, ...direct.map(throughTunnel), ...atNodePort, ...fromAddress];
  });
}

/**
 * Admitted clients must not reach a node process instead of an endpoint. Addresses with several ports are omitted,
 * because the entry that marks a virtual server as kube-ipvs's opens its port for a moment.
 */
function ownPorts(services: readonly ServiceRecord[]): readonly Probe[] {
  const portsByAddress = new Map<IpAddress, Set<number>>();
  for (const service of services) {
    const ports = [...service.ports.map(({ port }) => port), ...rangePortsOf(service)];
    for (const address of [...service.clusterIps, ...service.loadBalancerIps]) {
      const known = portsByAddress.get(address) ?? new Set();
      portsByAddress.set(address, new Set([...known, ...ports]));
    }
  }
  return [...portsByAddress].flatMap(([address, [port, ...others]]) => {
    const [, source] = clients[familyOf(address)];
    if (port === undefined || source === undefined || others.length > 0) return [];
    return [probe(source, address, port, ["node"])];
  });
}

/**
 * A client that a port range admits must not reach a node process. During a sync, the client may reach one if the
 * address is already bound, because the rules that mark its packets are written before the virtual server.
 */
function portsInRanges(services: readonly ServiceRecord[]): readonly Probe[] {
  return services.flatMap((service) => {
    const addresses = [...service.clusterIps, ...service.loadBalancerIps];
    return rangePortsOf(service).flatMap((port) =>
      addresses.flatMap((address) => {
        const [, source] = clients[familyOf(address)];
        return source === undefined
          ? []
          : [{ ...probe(source, address, port, ["node"]), mayOpen: true as const }];
      }),
    );
  });
}

function otherPorts(services: readonly ServiceRecord[]): readonly Probe[] {
  const addresses = new Set(
    services.flatMap(({ clusterIps, loadBalancerIps }) => [...clusterIps, ...loadBalancerIps]),
  );
  return [...addresses].flatMap((address) => {
    const [source] = clients[familyOf(address)];
    return source === undefined ? [] : [probe(source, address, otherPort, ["node"])];
  });
}

const forNobody: readonly Fate[] = ["endpoint", "node"];

/** The same packet, forwarded by another node. */
function throughTunnel({ packet, ...probe }: Probe): Probe {
  const inLink = tunnelLinks[packet.family].name;
  return { ...probe, name: `${probe.name} through ${inLink}`, packet: { ...packet, inLink } };
}

/** A node process uses the destination as its source, because that is a node address. */
function probe(
  from: IpAddress | "node",
  destination: IpAddress,
  port: number,
  forbidden: readonly Fate[],
): Probe {
  const isFromNode = from === "node";
  return {
    name: `${from} to ${destination} ${port}`,
    forbidden,
    packet: {
      family: familyOf(destination),
      protocol: "TCP",
      source: isFromNode ? destination : (from as IpAddress),
      destination,
      port,
      isFromNode,
      inLink: isFromNode ? "" : "eth0",
      isBridged: false,
    },
  };
}
