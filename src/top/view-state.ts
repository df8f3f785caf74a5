/** The state of the view, and the effect of each key. Pure. */
import type { SortKey } from "./options.ts";

export interface ViewState {
  readonly sort: SortKey;
  readonly isReversed: boolean;
  readonly filter: string;
  /** The filter while the user is typing it. Undefined otherwise. */
  readonly typed?: string;
  /** Label of the selected row. Undefined for the first row. */
  readonly chosen?: string;
  /** Label of the row whose endpoints are shown. Undefined if Services are shown. */
  readonly opened?: string;
  readonly isPaused: boolean;
}

/** The rows of the current list. */
export interface ShownRows {
  /** Labels in display order. */
  readonly keys: readonly string[];
  /** Number of rows that fit on the screen. */
  readonly pageSize: number;
}

export type Effect = "quit" | "read";

export interface Pressed {
  readonly state: ViewState;
  readonly effect?: Effect;
}

const sortOfKey: Readonly<Record<string, SortKey>> = {
  c: "connections",
  i: "in",
  o: "out",
  a: "active",
  n: "inactive",
  s: "name",
};

/** Handles a key, which is a name from terminal.ts or a character. */
export function press(state: ViewState, key: string, shown: ShownRows): Pressed {
  if (key === "interrupt") return { state, effect: "quit" };
  if (state.typed !== undefined) return { state: typing(state, state.typed, key) };
  if (key === "q") return { state, effect: "quit" };
  if (key === "enter" || key === "right") return open(state, shown);
  if (key === "escape" || key === "left" || key === "backspace") return { state: back(state) };
  if (key === "/") {
    return { state: state.opened === undefined ? { ...state, typed: state.filter } : state };
  }
  if (key === "r") return { state: { ...state, isReversed: !state.isReversed } };
  if (key === " ") return { state: { ...state, isPaused: !state.isPaused } };
  const sort = sortOfKey[key];
  if (sort !== undefined) return { state: sortedBy(state, sort) };
  return { state: moved(state, key, shown) };
}

/** Returns the index of the selected row, or 0 if that row no longer exists. */
export function chosenIndex({ chosen }: ViewState, keys: readonly string[]): number {
  return chosen === undefined ? 0 : Math.max(0, keys.indexOf(chosen));
}

/** Returns the index of the first row on the page that contains the selected row. */
export function firstShown(index: number, pageSize: number): number {
  return pageSize <= 0 ? index : Math.floor(index / pageSize) * pageSize;
}

function typing(state: ViewState, typed: string, key: string): ViewState {
  const { typed: _, chosen: __, ...rest } = state;
  if (key === "enter") return { ...rest, filter: typed };
  if (key === "escape") return { ...rest, filter: "" };
  if (key === "backspace") return { ...state, typed: typed.slice(0, -1) };
  return [...key].length === 1 ? { ...state, typed: typed + key } : state;
}

function open(state: ViewState, { keys }: ShownRows): Pressed {
  const key = keys[chosenIndex(state, keys)];
  if (state.opened !== undefined || key === undefined) return { state };
  const { chosen: _, ...rest } = state;
  return { state: { ...rest, opened: key }, effect: "read" };
}

/** Leaves the endpoint list, or clears the filter. */
function back(state: ViewState): ViewState {
  const { opened, ...rest } = state;
  return opened === undefined ? { ...state, filter: "" } : { ...rest, chosen: opened };
}

/** Changes the sort order. The key of the current order reverses it. */
function sortedBy(state: ViewState, sort: SortKey): ViewState {
  const isSame = state.sort === sort;
  return { ...state, sort, isReversed: isSame ? !state.isReversed : false };
}

function moved(state: ViewState, key: string, { keys, pageSize }: ShownRows): ViewState {
  const last = keys.length - 1;
  const index = chosenIndex(state, keys);
  const steps: Readonly<Record<string, number>> = {
    up: -1,
    k: -1,
    down: 1,
    j: 1,
    "page-up": -pageSize,
    "page-down": pageSize,
    home: -last,
    end: last,
  };
  const step = steps[key];
  const chosen = step === undefined ? undefined : keys[Math.min(last, Math.max(0, index + step))];
  return chosen === undefined ? state : { ...state, chosen };
}
