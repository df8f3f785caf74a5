/** What the command line says, and its words. Apart, since the command line is read without the rest. */
import type { Clock } from "../base/clock.ts";
import type { ReadNames } from "./owners.ts";

export const topFormats = ["table", "json"] as const;
export const topSortKeys = ["connections", "in", "out", "active", "inactive", "name"] as const;
export type SortKey = (typeof topSortKeys)[number];

export interface TopOptions {
  /** One table, and no keys. */
  readonly isBatch: boolean;
  readonly format: "table" | "json";
  readonly intervalMs: number;
  /** As it was given. */
  readonly intervalText: string;
  readonly sort: SortKey;
  readonly filter: string;
  readonly hasColor: boolean;
}

export interface TopParts {
  readonly clock: Clock;
  readonly readNames: ReadNames;
  readonly writeOut: (text: string) => void;
  readonly writeErr: (text: string) => void;
  /** Columns of the terminal that stdout is; undefined if it is not one. */
  readonly columns?: number | undefined;
}
