/** The command's options, in a separate file, because the parser does not load the other files. */
import type { Clock } from "../base/clock.ts";
import type { ReadNames } from "./names.ts";

export const topSortKeys = ["connections", "in", "out", "active", "inactive", "name"] as const;
export type SortKey = (typeof topSortKeys)[number];

export interface TopOptions {
  readonly intervalMs: number;
  /** The interval as given on the command line. */
  readonly intervalText: string;
  readonly sort: SortKey;
  readonly filter: string;
  readonly hasColor: boolean;
}

export interface TopSources {
  readonly clock: Clock;
  readonly readNames: ReadNames;
}
