/**
 * Collects what is planned for some addresses and ports in IPVS mode. Reads the daemon's state without replanning.
 */

import { type Destination, type PlannedState, withoutIpvs } from "../../answer/answers.ts";
import { type ServiceRow, serverKeyOf } from "../../answer/rows.ts";
import type { ServiceName } from "../../api/objects.ts";
import { familyOf, type IpAddress, type IpFamily, isLoopback } from "../../base/ip.ts";
import { inSlices } from "../../base/time-slice.ts";
import { loopbackNodePorts } from "../../plan/loopback-node-ports.ts";
import type { ServicePortPlan } from "../../plan/service-port-plan.ts";
import { allSetsFor, setFor } from "../../plan/sets.ts";
import { serves } from "../../state/served-range.ts";
import {
  addressEntry,
  addressPortAddressEntry,
  addressPortEntry,
  portEntry,
  type SetEntry,
} from "../../state/set-entry.ts";
import { markServerId, type ServerKey, virtualServerKey } from "../../state/virtual-server.ts";
import type { DaemonView } from "./daemon-view.ts";
import { namesOf } from "./row-fields.ts";
import { serviceRows } from "./service-rows.ts";

/**
 * `from` is the client's address; undefined means any client. Rejects if connection counts cannot be read from the
 * kernel.
 */
export async function ipvsFacts(
  view: DaemonView,
  destinations: readonly Destination[],
  from: IpAddress | undefined,
): Promise<PlannedState> {
  const { desired } = view.plan;
  const forwards: PlannedState["forwards"][number][] = [];
  for (const destination of destinations) {
    forwards.push(...(await inSlices(view.clock, forwardOf(view, destination))));
  }
  const concerned = [...destinations, ...forwards.map(({ to }) => to)];
  const keys = concerned.flatMap((destination) => keysOf(view, destination));
  const addresses = [
    ...concerned.map(({ address }) => address),
    ...(from === undefined ? [] : [from]),
  ];
  return {
    ...withoutIpvs,
    mode: "ipvs",
    iptablesBackend: view.iptables.choice.backend,
    forwards,
    services: await rowsOf(view, new Set(keys)),
    virtualServers: keys.flatMap((key) => {
      const planned = desired.virtualServer(key);
      return planned === undefined
        ? []
        : [
            {
              virtualServer: planned.virtualServer,
              realServers: planned.realServers,
              ...(planned.range === undefined ? {} : { range: planned.range }),
            },
          ];
    }),
    rules: Object.fromEntries(view.families.map((family) => [family, view.plan.rulesOf(family)])),
    setEntries: entriesAbout(view, concerned, from),
    boundAddresses: [...new Set(addresses)].filter((address) => desired.hasAddress(address)),
  };
}

/**
 * Keys of the virtual server at an address and port, and of the firewall-mark virtual servers whose port range or
 * tunnel contains that address and port.
 */
function keysOf({ plan: { desired } }: DaemonView, destination: Destination): readonly ServerKey[] {
  const family = familyOf(destination.address);
  const marked = [...desired.ranges(family), ...desired.tunnels(family)]
    .filter((one) => serves(one, destination))
    .map(({ mark }) => virtualServerKey(markServerId(family, mark)));
  return [virtualServerKey(destination), ...marked];
}

/** All addresses and ports of one Service, with the first port of each protocol for port ranges. */
export function destinationsOf(
  { plan, families }: DaemonView,
  service: ServiceName,
): readonly Destination[] {
  return families.flatMap((family) =>
    plan.desired.plansOf(service, family).flatMap(({ virtualServers }) =>
      virtualServers.flatMap(({ virtualServer: { protocol, address, port }, range }) => {
        if (protocol !== "FWM") return [{ protocol, address, port }];
        if (range?.tunnel !== undefined) return [];
        const first = range?.ranges[0]?.first ?? 0;
        return (range?.protocols ?? []).map((one) => ({
          protocol: one,
          address: range?.address ?? address,
          port: first,
        }));
      }),
    ),
  );
}

/**
 * The node port to which kube-ipvs forwards connections to this loopback address. Iterates over all Services if the
 * address is loopback, because there is no index by node port. Yields after each Service.
 */
function* forwardOf(
  { config, plan }: DaemonView,
  from: Destination,
): Generator<void, PlannedState["forwards"]> {
  if (!config.localhostNodePorts || !isLoopback(from.address)) return [];
  const family = familyOf(from.address);
  for (const service of plan.tracker.serviceNames()) {
    yield;
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

async function rowsOf(
  view: DaemonView,
  keys: ReadonlySet<ServerKey>,
): Promise<readonly ServiceRow[]> {
  const services = new Set([...keys].flatMap((key) => view.plan.desired.servicesOfServer(key)));
  const rows: ServiceRow[] = [];
  for (const service of services) {
    const query = { ...namesOf(service), hasEndpoints: true, hasConnections: true };
    for await (const row of serviceRows(view, query)) {
      if (keys.has(serverKeyOf(row))) rows.push(row);
    }
  }
  return rows;
}

/**
 * Set entries that a packet to one of these destinations may match. Looks up each candidate instead of iterating over
 * the set.
 */
function entriesAbout(
  view: DaemonView,
  destinations: readonly Destination[],
  from: IpAddress | undefined,
): PlannedState["setEntries"] {
  const { desired } = view.plan;
  const found = new Map<string, Set<SetEntry>>();
  for (const destination of destinations) {
    const family = familyOf(destination.address);
    const candidates = [
      ...candidatesOf(destination, from),
      ...plannedFor(view, destination, family),
    ];
    for (const { name } of allSetsFor(family)) {
      // This set exists only while tunnels are used.
      if (name === setFor("tunnelNodes", family).name && desired.entryCount(name) === 0) continue;
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
    // The destination may be an endpoint on this node.
    addressPortAddressEntry(address, protocol, port, address),
    ...addresses.flatMap((one) => [addressEntry(one), addressPortEntry(one, protocol, port)]),
  ];
}

/** The set entries planned for all service ports that claim this virtual server. */
function plannedFor(
  { plan: { desired } }: DaemonView,
  destination: Destination,
  family: IpFamily,
): readonly SetEntry[] {
  const key = virtualServerKey(destination);
  const claims = ({ virtualServers }: ServicePortPlan): boolean =>
    virtualServers.some(({ virtualServer }) => virtualServerKey(virtualServer) === key);
  return desired
    .servicesOfServer(key)
    .flatMap((service) => desired.plansOf(service, family))
    .filter(claims)
    .flatMap(({ setEntries }) => setEntries.map(({ entry }) => entry));
}
