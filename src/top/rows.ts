/** Readings and names → rows: which, with what figures, in what order. Pure. */
import { type RealServerId, realServerKey } from "../state/real-server.ts";
import { addConnections, addTraffic, type Traffic } from "../state/traffic.ts";
import { type VirtualServerId, virtualServerKey } from "../state/virtual-server.ts";
import type { SortKey } from "./options.ts";
import type { Figures } from "./reading.ts";

/** The Service that a virtual server belongs to. */
export interface Owner {
  readonly namespace: string;
  readonly name: string;
  /** Empty: the port has no name. */
  readonly portName: string;
}

/** By the keys of virtual servers. */
export type Owners = ReadonlyMap<string, Owner>;

/** One port of a Service with all its virtual servers, or a virtual server that nobody named. */
export interface TopRow {
  /** `shop/web:http TCP`, or the virtual server alone: `TCP 10.96.0.1:443`. */
  readonly label: string;
  readonly owner?: Owner;
  readonly protocol: string;
  readonly servers: readonly VirtualServerId[];
  readonly figures: Figures;
}

export interface EndpointRow {
  /** `10.244.1.5:8080` */
  readonly label: string;
  /** The largest among its virtual servers. */
  readonly weight: number;
  readonly figures: Figures;
}

export function rowsOf(
  ids: readonly VirtualServerId[],
  owners: Owners,
  figuresOf: (key: string) => Figures | undefined,
): readonly TopRow[] {
  const rows = new Map<string, TopRow>();
  for (const id of ids) {
    const serverKey = virtualServerKey(id);
    const figures = figuresOf(serverKey);
    if (figures === undefined) continue;
    const owner = owners.get(serverKey);
    const label = owner === undefined ? serverKey : ownerLabel(owner, id.protocol);
    const present = rows.get(label);
    const servers = [...(present?.servers ?? []), id];
    rows.set(label, {
      label,
      ...(owner === undefined ? {} : { owner }),
      protocol: id.protocol,
      servers,
      figures: present === undefined ? figures : sumOf(present.figures, figures),
    });
  }
  return [...rows.values()];
}

/** A real server as it is listed for one virtual server. */
export interface ListedEndpoint extends RealServerId {
  readonly weight: number;
  /** Names it among all virtual servers. */
  readonly key: string;
}

/** A row for each endpoint, with what it got through all virtual servers of its Service port. */
export function endpointRowsOf(
  listed: readonly ListedEndpoint[],
  figuresOf: (key: string) => Figures | undefined,
): readonly EndpointRow[] {
  const rows = new Map<string, EndpointRow>();
  for (const { key: listedKey, weight, ...id } of listed) {
    const figures = figuresOf(listedKey);
    if (figures === undefined) continue;
    const label = realServerKey(id);
    const present = rows.get(label);
    rows.set(label, {
      label,
      weight: Math.max(weight, present?.weight ?? 0),
      figures: present === undefined ? figures : sumOf(present.figures, figures),
    });
  }
  return [...rows.values()];
}

export function totalOf(rows: readonly { readonly figures: Figures }[]): Figures | undefined {
  const [first, ...rest] = rows;
  return rest.reduce<Figures | undefined>(
    (sum, { figures }) => (sum === undefined ? figures : sumOf(sum, figures)),
    first?.figures,
  );
}

/** Rows whose label or address holds `filter`, whatever its case. */
export function filtered(rows: readonly TopRow[], filter: string): readonly TopRow[] {
  if (filter === "") return rows;
  const wanted = filter.toLowerCase();
  return rows.filter(
    ({ label, servers }) =>
      label.toLowerCase().includes(wanted) ||
      servers.some((id) => virtualServerKey(id).toLowerCase().includes(wanted)),
  );
}

interface Sortable {
  readonly label: string;
  readonly figures: Figures;
}

/** The most first; names from A on. */
export function sorted<Row extends Sortable>(
  rows: readonly Row[],
  key: SortKey,
  isReversed: boolean,
): readonly Row[] {
  const sign = isReversed ? -1 : 1;
  const byName = (one: Row, other: Row): number =>
    one.label < other.label ? -1 : Number(one.label > other.label);
  if (key === "name") return rows.toSorted((one, other) => sign * byName(one, other));
  const value = sortValues[key];
  return rows.toSorted(
    (one, other) => sign * (value(other.figures) - value(one.figures)) || byName(one, other),
  );
}

const sortValues: Readonly<Record<Exclude<SortKey, "name">, (figures: Figures) => number>> = {
  connections: ({ rates, total }) => (rates ?? total).connections,
  in: ({ rates, total }) => (rates ?? total).bytesIn,
  out: ({ rates, total }) => (rates ?? total).bytesOut,
  active: ({ activeConnections }) => activeConnections,
  inactive: ({ inactiveConnections }) => inactiveConnections,
};

function ownerLabel({ namespace, name, portName }: Owner, protocol: string): string {
  return `${namespace}/${name}${portName === "" ? "" : `:${portName}`} ${protocol}`;
}

/** One that has no rates yet adds none. */
function sumOf(one: Figures, other: Figures): Figures {
  const rates = sumOfRates(one.rates, other.rates);
  return {
    ...addConnections(one, other),
    total: addTraffic(one.total, other.total),
    ...(rates === undefined ? {} : { rates }),
  };
}

function sumOfRates(one: Traffic | undefined, other: Traffic | undefined): Traffic | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return addTraffic(one, other);
}
