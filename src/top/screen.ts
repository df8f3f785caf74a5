/** What is shown, as lines of a terminal of a given size. Pure. */
import { grouped } from "../base/counted.ts";
import { escapeUnprintable } from "../base/printable.ts";
import { truncated } from "../base/table.ts";
import { shortNumber } from "./figures-text.ts";
import type { SortKey } from "./options.ts";
import type { Figures } from "./reading.ts";
import { type EndpointRow, filtered, sorted, type TopRow, totalOf } from "./rows.ts";
import { endpointTable, serviceTable, type Table } from "./table.ts";
import { chosenIndex, firstShown, type ShownRows, type ViewState } from "./view-state.ts";

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

export interface ScreenContent {
  readonly state: ViewState;
  readonly rows: readonly TopRow[];
  /** Of the row that is opened. */
  readonly endpoints: readonly EndpointRow[];
  readonly isCounting: boolean;
  readonly intervalText: string;
  /** Each on a line of its own: what is missing, and what failed. */
  readonly notes: readonly string[];
}

/** How a line stands out. */
export type Emphasis = "plain" | "titles" | "chosen" | "note";

export interface ScreenLine {
  readonly text: string;
  readonly emphasis: Emphasis;
}

export interface Screen {
  /** As many as the terminal has, none longer than it is wide. */
  readonly lines: readonly ScreenLine[];
  /** For the keys. */
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

/** Lays everything out; where there is little room, rows win over notes and the keys. */
export function layOut(content: ScreenContent, size: Size): Screen {
  const { state, notes } = content;
  const list = state.opened === undefined ? serviceList(content) : endpointList(content);
  const noteCount = Math.max(0, Math.min(notes.length, size.rows - 6));
  const hasFooter = size.rows >= 4;
  const fixedCount = 3 + noteCount + Number(hasFooter);
  const pageSize = Math.max(0, size.rows - fixedCount);
  const index = chosenIndex(state, list.keys);
  const first = firstShown(index, pageSize);
  const { titles, lines } = list.table(first, first + pageSize);
  const page: readonly ScreenLine[] = lines.map((text, at) => {
    const isChosen = first + at === index;
    return { text: `${isChosen ? ">" : " "}${text}`, emphasis: isChosen ? "chosen" : "plain" };
  });
  const all: readonly ScreenLine[] = [
    plain(headText(content, list.keys.length)),
    plain(list.totals),
    ...notes.slice(0, noteCount).map((text) => ({ text, emphasis: "note" }) as const),
    { text: ` ${titles}`, emphasis: "titles" },
    ...page,
    ...Array.from({ length: pageSize - page.length }, () => plain("")),
    ...(hasFooter ? [plain(footText(state))] : []),
  ];
  return {
    lines: all.slice(0, size.rows).map(({ text, emphasis }) => ({
      text: truncated(text, size.columns),
      emphasis,
    })),
    shown: { keys: list.keys, pageSize: Math.max(1, pageSize) },
  };
}

interface List {
  readonly keys: readonly string[];
  readonly totals: string;
  readonly table: (first: number, end: number) => Table;
}

function serviceList({ state, rows, isCounting }: ScreenContent): List {
  const found = filtered(rows, state.typed ?? state.filter);
  const inOrder = sorted(found, state.sort, state.isReversed);
  return {
    keys: inOrder.map(({ label }) => label),
    totals: totalsText(totalOf(inOrder), isCounting),
    table: (first, end) => serviceTable(inOrder.slice(first, end), { isCounting }, rows),
  };
}

function endpointList({ state, endpoints, isCounting }: ScreenContent): List {
  const inOrder = sorted(endpoints, state.sort, state.isReversed);
  return {
    keys: inOrder.map(({ label }) => label),
    totals: totalsText(totalOf(inOrder), isCounting),
    table: (first, end) => endpointTable(inOrder.slice(first, end), { isCounting }),
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

function totalsText(total: Figures | undefined, isCounting: boolean): string {
  if (total === undefined) return "Nothing to show";
  const { rates, activeConnections, inactiveConnections } = total;
  const connections = `${grouped(activeConnections)} active and ${grouped(inactiveConnections)} inactive connections`;
  if (rates === undefined || !isCounting) return `All: ${connections}`;
  const { connections: opened, bytesIn, bytesOut, packetsIn, packetsOut } = rates;
  return (
    `All: ${shortNumber(opened)} conns/s, in ${shortNumber(bytesIn)}B/s ${shortNumber(packetsIn)} packets/s, ` +
    `out ${shortNumber(bytesOut)}B/s ${shortNumber(packetsOut)} packets/s, ${connections}`
  );
}

function footText({ typed, opened }: ViewState): string {
  if (typed !== undefined) return `Filter: ${escapeUnprintable(typed)}_  (enter: keep, esc: none)`;
  const sorts = "c/i/o/a/n/s sort, r reverse";
  return opened === undefined
    ? `enter endpoints, / filter, ${sorts}, space pause, q quit`
    : `esc back, ${sorts}, space pause, q quit`;
}

function plain(text: string): ScreenLine {
  return { text, emphasis: "plain" };
}
