/** Formats the view as lines for a terminal of a given size. Pure. */

import { type Column, table } from "../answer/render.ts";
import type { TrafficEndpoint, TrafficFigures, TrafficRow } from "../answer/traffic.ts";
import { endpointColumns, serviceColumns, shortNumber } from "../answer/traffic-view.ts";
import { grouped } from "../base/counted.ts";
import { escapeUnprintable } from "../base/printable.ts";
import type { SortKey } from "./options.ts";
import { filtered, rowLabel, sorted, totalOf } from "./rows.ts";
import { chosenIndex, firstShown, type ShownRows, type ViewState } from "./view-state.ts";

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

export interface ScreenContent {
  readonly state: ViewState;
  readonly rows: readonly TrafficRow[];
  /** Endpoints of the opened row. */
  readonly endpoints: readonly TrafficEndpoint[];
  readonly intervalText: string;
  /** Notes about missing data and errors, one line each. */
  readonly notes: readonly string[];
}

/** Select Graphic Rendition codes of ECMA-48. */
const codes = { titles: 1, chosen: 7, note: 33 } as const;

export interface ScreenLine {
  readonly text: string;
  /** Style of the line on a terminal with colors. Undefined for plain text. */
  readonly code?: number;
}

export interface Screen {
  /** The lines of the screen, truncated to its width. */
  readonly lines: readonly ScreenLine[];
  /** The rows to which keys refer. */
  readonly shown: ShownRows;
}

const sortNames: Readonly<Record<SortKey, string>> = {
  connections: "conns/s",
  in: "bytes in",
  out: "bytes out",
  active: "active",
  inactive: "inactive",
  name: "name",
};

/** Creates the screen. If space is tight, omits notes and the key list before rows. */
export function layOut(content: ScreenContent, size: Size): Screen {
  const { state, notes } = content;
  const list = state.opened === undefined ? serviceList(content) : endpointList(content);
  const noteCount = Math.max(0, Math.min(notes.length, size.rows - 6));
  const hasFooter = size.rows >= 4;
  const fixedCount = 3 + noteCount + Number(hasFooter);
  const pageSize = Math.max(0, size.rows - fixedCount);
  const index = chosenIndex(state, list.keys);
  const first = firstShown(index, pageSize);
  const [titles, ...lines] = list.lines;
  const page = lines.slice(first, first + pageSize).map((text, at): ScreenLine => {
    const isChosen = first + at === index;
    return isChosen ? { text: `> ${text}`, code: codes.chosen } : { text: `  ${text}` };
  });
  const all: readonly ScreenLine[] = [
    { text: headText(content, list.keys.length) },
    { text: list.totals },
    ...notes.slice(0, noteCount).map((text) => ({ text, code: codes.note })),
    { text: `  ${titles}`, code: codes.titles },
    ...page,
    ...Array.from({ length: pageSize - page.length }, () => ({ text: "" })),
    ...(hasFooter ? [{ text: footText(state) }] : []),
  ];
  return {
    lines: all.slice(0, size.rows).map(({ text, ...line }) => {
      const isTooLong = text.length > size.columns;
      return { ...line, text: isTooLong ? `${text.slice(0, size.columns - 1)}…` : text };
    }),
    shown: { keys: list.keys, pageSize: Math.max(1, pageSize) },
  };
}

interface List {
  readonly keys: readonly string[];
  readonly totals: string;
  /** The titles, followed by the rows. */
  readonly lines: readonly string[];
}

function serviceList({ state, rows }: ScreenContent): List {
  const found = filtered(rows, state.typed ?? state.filter);
  return listOf(serviceColumns, sorted(found, state.sort, state.isReversed));
}

function endpointList({ state, endpoints }: ScreenContent): List {
  return listOf(endpointColumns, sorted(endpoints, state.sort, state.isReversed));
}

function listOf<Row extends TrafficRow | TrafficEndpoint>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): List {
  return {
    keys: rows.map(rowLabel),
    totals: totalsText(totalOf(rows)),
    lines: table(columns, rows)({}),
  };
}

function headText(content: ScreenContent, shownCount: number): string {
  const { state, rows, intervalText } = content;
  const count = grouped(shownCount);
  const all = state.filter === "" ? "" : ` of ${grouped(rows.length)}`;
  const counted = state.filter === "" ? shownCount : rows.length;
  const what =
    state.opened === undefined
      ? `${count}${all} Service port${counted === 1 ? "" : "s"}`
      : `${count} endpoint${shownCount === 1 ? "" : "s"} of ${escapeUnprintable(state.opened)}`;
  const order = `by ${sortNames[state.sort]}${state.isReversed ? ", reversed" : ""}`;
  const filter = state.filter === "" ? "" : `, filter ${JSON.stringify(state.filter)}`;
  const pace = state.isPaused ? "paused" : `every ${intervalText}`;
  return `kube-ipvs top - ${what}, ${order}, ${pace}${filter}`;
}

function totalsText(total: TrafficFigures | undefined): string {
  if (total === undefined) return "Nothing to show";
  const { perSecond, activeConnections, inactiveConnections } = total;
  const connections = `${grouped(activeConnections)} active and ${grouped(inactiveConnections)} inactive connections`;
  if (perSecond === undefined) return `All: ${connections}`;
  const { connections: opened, bytesIn, bytesOut, packetsIn, packetsOut } = perSecond;
  return (
    `All: ${shortNumber(opened)} conns/s, in ${shortNumber(bytesIn)}B/s ${shortNumber(packetsIn)} packets/s, ` +
    `out ${shortNumber(bytesOut)}B/s ${shortNumber(packetsOut)} packets/s, ${connections}`
  );
}

function footText({ typed, opened }: ViewState): string {
  if (typed !== undefined) return `Filter: ${escapeUnprintable(typed)}_  (enter: keep, esc: clear)`;
  const sorts = "c/i/o/a/n/s sort, r reverse";
  return opened === undefined
    ? `enter endpoints, / filter, ${sorts}, space pause, q quit`
    : `esc back, ${sorts}, space pause, q quit`;
}
