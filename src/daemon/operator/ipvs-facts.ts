/** What is planned about some addresses and ports in mode ipvs, from the daemon's own state. Nothing is decided again. */
import { familyOf, type IpAddress, type IpFamily, isLoopback } from "../../base/ip.ts";
import { loopbackNodePorts } from "../../plan/loopback-node-ports.ts";
import type { ServicePortPlan } from "../../plan/service-port-plan.ts";
import { setsFor } from "../../plan/sets.ts";
import { addressEntry, addressPortEntry, portEntry, type SetEntry } from "../../state/set-entry.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import {
  apiVersion,
  type Destination,
  type IpvsFacts,
  type PlanQuery,
  type ServiceRow,
} from "./answers.ts";
import type { DaemonView } from "./daemon-view.ts";
import { serviceRows } from "./service-rows.ts";

/** Addresses and ports of one Service: with node ports on many addresses there are more. */
export const maxDestinations = 100;

/** Rejects where the kernel does not answer for counts of connections. */
export async function ipvsFacts(view: DaemonView, query: PlanQuery): Promise<IpvsFacts> {
  const asked = destinationsOf(view, query);
  const destinations = asked.slice(0, maxDestinations);
  const { desired } = view.plan;
  const forwards = destinations.flatMap((destination) => forwardOf(view, destination));
  const concerned = [...destinations, ...forwards.map(({ to }) => to)];
  const keys = concerned.flatMap(serverKeys);
  const { from } = query;
  const addresses = [
    ...concerned.map(({ address }) => address),
    ...(from === undefined ? [] : [from]),
  ];
  return {
    apiVersion,
    kind: "PlanFacts",
    mode: "ipvs",
    families: view.families,
    iptablesBackend: view.iptables.choice.backend,
    destinations,
    isTruncated: asked.length > destinations.length,
    forwards,
    services: await rowsOf(view, new Set(keys)),
    virtualServers: keys.flatMap((key) => {
      const planned = desired.virtualServer(key);
      return planned === undefined
        ? []
        : [{ virtualServer: planned.virtualServer, realServers: planned.realServers }];
    }),
    rules: Object.fromEntries(view.families.map((family) => [family, view.plan.rulesOf(family)])),
    setEntries: entriesAbout(view, concerned, from),
    boundAddresses: [...new Set(addresses)].filter((address) => desired.hasAddress(address)),
  };
}

function destinationsOf({ plan, families }: DaemonView, query: PlanQuery): readonly Destination[] {
  if (query.kind === "destination") return [query.destination];
  const name = `${query.namespace}/${query.name}`;
  return families.flatMap((family) =>
    plan.desired.plansOf(name, family).flatMap(({ virtualServers }) =>
      virtualServers.map(({ virtualServer: { protocol, address, port } }) => ({
        protocol,
        address,
        port,
      })),
    ),
  );
}

/** Asked for a loopback address alone, all Services are gone through: nobody looks them up by node port. */
function forwardOf({ config, plan }: DaemonView, from: Destination): IpvsFacts["forwards"] {
  if (!config.areNodePortsOnLocalhost || !isLoopback(from.address)) return [];
  const family = familyOf(from.address);
  for (const service of plan.tracker.serviceNames()) {
    const nodePorts = plan.desired
      .plansOf(service, family)
      .flatMap((one) => loopbackNodePorts({ family, servicePorts: [one] }, plan.nodeIp(family)));
    const found = nodePorts.find(
      (one) =>
        one.protocol === from.protocol &&
        one.from.address === from.address &&
        one.from.port === from.port,
    );
    if (found !== undefined) return [{ from, to: { protocol: found.protocol, ...found.to } }];
  }
  return [];
}

function serverKeys({ protocol, address, port }: Destination): readonly string[] {
  return protocol === "ICMP" ? [] : [virtualServerKey({ protocol, address, port })];
}

async function rowsOf(view: DaemonView, keys: ReadonlySet<string>): Promise<readonly ServiceRow[]> {
  const services = new Set([...keys].flatMap((key) => view.plan.desired.servicesOfServer(key)));
  const rows: ServiceRow[] = [];
  for (const service of services) {
    const [namespace = "", name = ""] = service.split("/");
    const query = { namespace, name, hasEndpoints: true, hasConnections: true };
    for await (const row of serviceRows(view, query)) {
      if (keys.has(rowKey(row))) rows.push(row);
    }
  }
  return rows;
}

function rowKey({ protocol, address, port }: ServiceRow): string {
  return virtualServerKey({ protocol, address, port } as Parameters<typeof virtualServerKey>[0]);
}

/** Entries that a packet to one of these destinations may meet: asked for one by one, no set is gone through. */
function entriesAbout(
  view: DaemonView,
  destinations: readonly Destination[],
  from: IpAddress | undefined,
): IpvsFacts["setEntries"] {
  const { desired } = view.plan;
  const found = new Map<string, Set<SetEntry>>();
  for (const destination of destinations) {
    const family = familyOf(destination.address);
    const candidates = [
      ...candidatesOf(destination, from),
      ...plannedFor(view, destination, family),
    ];
    for (const { name } of setsFor(family)) {
      const entries = found.get(name) ?? new Set();
      found.set(name, entries);
      for (const entry of candidates) if (desired.hasEntry(name, entry)) entries.add(entry);
    }
  }
  return Object.fromEntries([...found].map(([name, entries]) => [name, [...entries]]));
}

function candidatesOf(
  { protocol, address, port }: Destination,
  from: IpAddress | undefined,
): readonly SetEntry[] {
  const addresses = [address, ...(from === undefined ? [] : [from])];
  if (protocol === "ICMP") return addresses.map(addressEntry);
  return [
    portEntry(port),
    ...addresses.flatMap((one) => [addressEntry(one), addressPortEntry(one, protocol, port)]),
  ];
}

/** All that the service ports want which claim this virtual server. */
function plannedFor(
  { plan: { desired } }: DaemonView,
  destination: Destination,
  family: IpFamily,
): readonly SetEntry[] {
  return serverKeys(destination).flatMap((key) => {
    const claims = ({ virtualServers }: ServicePortPlan): boolean =>
      virtualServers.some(({ virtualServer }) => virtualServerKey(virtualServer) === key);
    return desired
      .servicesOfServer(key)
      .flatMap((service) => desired.plansOf(service, family))
      .filter(claims)
      .flatMap(({ setEntries }) => setEntries.map(({ entry }) => entry));
  });
}
