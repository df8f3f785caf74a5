/** What the command line says, and its words. Apart, since the command line is read without the rest. */
import type { Clock } from "../base/clock.ts";
import type { ReadNames } from "./names.ts";

export const topSortKeys = ["connections", "in", "out", "active", "inactive", "name"] as const;
export type SortKey = (typeof topSortKeys)[number];

export interface TopOptions {
  readonly intervalMs: number;
  /** As it was given. */
  readonly intervalText: string;
  readonly sort: SortKey;
  readonly filter: string;
  readonly hasColor: boolean;
}

export interface TopSources {
  readonly clock: Clock;
  readonly readNames: ReadNames;
}
