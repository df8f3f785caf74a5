/** Tables of traffic by Service or endpoint. Names are last, because narrow terminals truncate lines. Pure. */
import { hostPort } from "../base/ip.ts";
import type { Traffic } from "../state/traffic.ts";
import { type Column, table, type View } from "./render.ts";
import type { TrafficEndpoint, TrafficFigures, TrafficList, TrafficRow } from "./traffic.ts";

export const trafficView: View<TrafficList> = {
  blocks: ({ items }) => [table(serviceColumns, items)],
};

const figure = { isNumber: true, minWidth: 7 } as const;

function rate(title: string, field: keyof Traffic): Column<TrafficFigures> {
  return {
    title,
    cell: ({ perSecond }) => (perSecond === undefined ? "" : shortNumber(perSecond[field])),
    ...figure,
  };
}

const figureColumns: readonly Column<TrafficFigures>[] = [
  rate("CONNS/S", "connections"),
  rate("IN-B/S", "bytesIn"),
  rate("OUT-B/S", "bytesOut"),
  { title: "ACTIVE", cell: (row) => shortNumber(row.activeConnections), ...figure },
  { title: "INACTIVE", cell: (row) => shortNumber(row.inactiveConnections), ...figure },
];

export const serviceColumns: readonly Column<TrafficRow>[] = [
  ...figureColumns,
  { title: "SERVICE", cell: (row) => (row.name === undefined ? "" : labelOf(row)) },
  { title: "VIRTUAL-SERVER", cell: serversText },
];

export const endpointColumns: readonly Column<TrafficEndpoint>[] = [
  ...figureColumns,
  { title: "ENDPOINT", cell: ({ label }) => label },
  { title: "WEIGHT", cell: ({ weight }) => weight },
];

/** Formats a row's label: `shop/web:http TCP` or, if the Service is unknown, `TCP 10.96.0.1:443`. */
export function labelOf(row: TrafficRow): string {
  const { namespace, name, portName, protocol } = row;
  if (name === undefined) return serversText(row);
  return `${namespace}/${name}${portName === undefined ? "" : `:${portName}`} ${protocol}`;
}

/** Shows the first virtual server and the number of others. */
function serversText({ name, protocol, virtualServers }: TrafficRow): string {
  const [text = "", ...others] = virtualServers.map(({ address, port }) => hostPort(address, port));
  if (name === undefined) return `${protocol} ${text}`;
  return `${text}${others.length === 0 ? "" : ` +${others.length}`}`;
}

const units = ["", "k", "M", "G", "T", "P"] as const;

/** Formats a number with at most three digits and a decimal unit: `0`, `7.5`, `512`, `1.2k`, `34k`, `5.6M`. */
export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return "-";
  let rest = Math.max(0, value);
  let step = 0;
  // A number that rounds to 1,000 uses the next unit.
  while (Math.round(rest) >= 1_000 && step < units.length - 1) {
    rest /= 1_000;
    step += 1;
  }
  const digits = rest >= 9.95 ? String(Math.round(rest)) : rest.toFixed(1).replace(/\.0$/, "");
  return `${digits}${units[step] ?? ""}`;
}
