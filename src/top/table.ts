/** Rows as lines: figures first, so that a narrow terminal cuts off names and not figures. Pure. */

import { hostPort } from "../base/ip.ts";
import { escapeUnprintable } from "../base/printable.ts";
import type { VirtualServerId } from "../state/virtual-server.ts";
import { shortNumber } from "./figures-text.ts";
import type { Figures } from "./reading.ts";
import type { EndpointRow, TopRow } from "./rows.ts";

const figureTitles: readonly string[] = ["CONNS/S", "IN-B/S", "OUT-B/S", "ACTIVE", "INACTIVE"];
const figureWidth = 8;
const longestLabel = 60;

/** What the figures of a row rest on. */
export interface TableOptions {
  /** The kernel adds its counters up. */
  readonly isCounting: boolean;
}

export interface Table {
  readonly titles: string;
  readonly lines: readonly string[];
}

/** `widest`: all rows by whose labels the columns are made, not only those shown. */
export function serviceTable(
  rows: readonly TopRow[],
  options: TableOptions,
  widest: readonly TopRow[] = rows,
): Table {
  const named = widest.filter(({ owner }) => owner !== undefined);
  const width = labelWidth(named, "SERVICE");
  return {
    titles: line(figureTitles, "SERVICE".padEnd(width), "VIRTUAL-SERVER"),
    lines: rows.map(({ figures, label, owner, servers }) => {
      const isNamed = owner !== undefined;
      const name = (isNamed ? escapeUnprintable(label) : "-").padEnd(width);
      return line(figureTexts(figures, options), name, serversText(servers, isNamed));
    }),
  };
}

export function endpointTable(rows: readonly EndpointRow[], options: TableOptions): Table {
  const width = labelWidth(rows, "ENDPOINT");
  return {
    titles: line(figureTitles, "ENDPOINT".padEnd(width), "WEIGHT"),
    lines: rows.map(({ figures, label, weight }) =>
      line(figureTexts(figures, options), label.padEnd(width), String(weight)),
    ),
  };
}

function figureTexts(figures: Figures, { isCounting }: TableOptions): readonly string[] {
  const { rates, activeConnections, inactiveConnections } = figures;
  const shown = isCounting ? rates : undefined;
  const rateTexts =
    shown === undefined
      ? ["-", "-", "-"]
      : [shown.connections, shown.bytesIn, shown.bytesOut].map(shortNumber);
  return [...rateTexts, shortNumber(activeConnections), shortNumber(inactiveConnections)];
}

/** The first virtual server, and how many more. */
function serversText(servers: readonly VirtualServerId[], isNamed: boolean): string {
  const [first] = servers;
  if (first === undefined) return "";
  const text = hostPort(first.address, first.port);
  const more = servers.length === 1 ? "" : ` +${servers.length - 1}`;
  return isNamed ? `${text}${more}` : `${first.protocol} ${text}${more}`;
}

function labelWidth(rows: readonly { readonly label: string }[], title: string): number {
  let width = title.length;
  for (const { label } of rows) width = Math.max(width, Math.min(longestLabel, label.length));
  return width;
}

function line(figures: readonly string[], label: string, last: string): string {
  const cells = figures.map((text) => text.padStart(figureWidth));
  return `${cells.join(" ")}  ${label}  ${last}`.trimEnd();
}
