/** Creates rows from readings and names, and filters and sorts them. Pure. */
import type { TrafficEndpoint, TrafficFigures, TrafficRow } from "../answer/traffic.ts";
import { labelOf } from "../answer/traffic-view.ts";
import { type RealServerId, realServerKey } from "../state/real-server.ts";
import { addConnections, addTraffic } from "../state/traffic.ts";
import { type ServerKey, type VirtualServerId, virtualServerKey } from "../state/virtual-server.ts";
import type { Owners } from "./names.ts";
import type { SortKey } from "./options.ts";

export function rowsOf<Server extends VirtualServerId & { readonly key: ServerKey }>(
  servers: readonly Server[],
  owners: Owners,
  figuresOf: (server: Server) => TrafficFigures,
): readonly TrafficRow[] {
  const rows = new Map<string, TrafficRow>();
  for (const one of servers) {
    const { protocol, address, port, key } = one;
    const figures = figuresOf(one);
    const server = { address, port };
    const row = { ...owners.get(key), protocol, virtualServers: [server], ...figures };
    const label = labelOf(row);
    const present = rows.get(label);
    const virtualServers = [...(present?.virtualServers ?? []), server];
    rows.set(label, { ...row, virtualServers, ...(present && sumOf(present, figures)) });
  }
  return [...rows.values()];
}

/** Returns one row per endpoint, with its traffic through all virtual servers of its Service port. */
export function endpointRowsOf<Endpoint extends RealServerId & { readonly weight: number }>(
  listed: readonly Endpoint[],
  figuresOf: (endpoint: Endpoint) => TrafficFigures,
): readonly TrafficEndpoint[] {
  const rows = new Map<string, TrafficEndpoint>();
  for (const one of listed) {
    const figures = figuresOf(one);
    const label = realServerKey(one);
    const present = rows.get(label);
    const weight = Math.max(one.weight, present?.weight ?? 0);
    rows.set(label, { label, weight, ...(present ? sumOf(present, figures) : figures) });
  }
  return [...rows.values()];
}

export function totalOf(rows: readonly TrafficFigures[]): TrafficFigures | undefined {
  const [first, ...rest] = rows;
  return first === undefined ? undefined : rest.reduce(sumOf, first);
}

/** Returns rows whose label or virtual server contains `filter`, ignoring case. */
export function filtered(rows: readonly TrafficRow[], filter: string): readonly TrafficRow[] {
  if (filter === "") return rows;
  const wanted = filter.toLowerCase();
  return rows.filter((row) =>
    [
      labelOf(row),
      ...row.virtualServers.map((id) => virtualServerKey({ ...id, protocol: row.protocol })),
    ].some((text) => text.toLowerCase().includes(wanted)),
  );
}

/** Sorts figures in descending order, and names in alphabetical order. */
export function sorted<Row extends TrafficRow | TrafficEndpoint>(
  rows: readonly Row[],
  key: SortKey,
  isReversed: boolean,
): readonly Row[] {
  const sign = isReversed ? -1 : 1;
  const byName = (one: Row, other: Row): number => {
    const [name, otherName] = [rowLabel(one), rowLabel(other)];
    return name < otherName ? -1 : Number(name > otherName);
  };
  if (key === "name") return rows.toSorted((one, other) => sign * byName(one, other));
  const value = sortValues[key];
  return rows.toSorted((one, other) => sign * (value(other) - value(one)) || byName(one, other));
}

export function rowLabel(row: TrafficRow | TrafficEndpoint): string {
  return "label" in row ? row.label : labelOf(row);
}

const sortValues: Readonly<Record<Exclude<SortKey, "name">, (row: TrafficFigures) => number>> = {
  connections: ({ perSecond, total }) => (perSecond ?? total).connections,
  in: ({ perSecond, total }) => (perSecond ?? total).bytesIn,
  out: ({ perSecond, total }) => (perSecond ?? total).bytesOut,
  active: ({ activeConnections }) => activeConnections,
  inactive: ({ inactiveConnections }) => inactiveConnections,
};

/** Adds figures. Skips undefined rates. */
function sumOf(one: TrafficFigures, other: TrafficFigures): TrafficFigures {
  const rates = [one.perSecond, other.perSecond].filter((each) => each !== undefined);
  return {
    ...addConnections(one, other),
    total: addTraffic(one.total, other.total),
    ...(rates.length === 0 ? {} : { perSecond: rates.reduce(addTraffic) }),
  };
}
