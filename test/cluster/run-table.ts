/** The table of runs that execute commands or compare EndpointSlices. Pure. */
import { withRows } from "./result-table.ts";

export interface RunName {
  /** The make target. */
  readonly run: string;
  readonly proxy: string;
  readonly mode: string;
}

/** The results of a run that was not aborted. */
export interface RunCounts {
  /** The unit of `count` and `failed`, such as `steps`. */
  readonly counted: string;
  readonly count: number;
  /** Failed steps or commands, or differences. */
  readonly failed: number;
  /** Connections that were open the whole time, if there were any. */
  readonly connections?: number;
  readonly broken?: number;
  /** The first failure. Empty if nothing failed. */
  readonly failure: string;
}

export interface RunRow extends RunName {
  /** Undefined if the run was aborted. */
  readonly counts: RunCounts | undefined;
  /** Why the run was aborted, or the first failure. */
  readonly failure: string;
  /** Duration of the whole run. */
  readonly seconds: number;
  readonly commit: string;
  readonly date: string;
  readonly kubernetes: string;
  /** The nodes' kernel. Empty if no nodes run. */
  readonly kernel: string;
}

const head = [
  ...["run", "proxy", "mode", "counted", "number", "failed or different", "connections", "broken"],
  ...["seconds", "failure", "commit", "date", "Kubernetes", "kernel"],
];

export function isGood({ failed, broken = 0, failure }: RunCounts): boolean {
  return failed + broken === 0 && failure === "";
}

/** Returns the lines of `earlier`, with that of the same run, proxy and mode replaced. */
export function withRunRow(earlier: string, row: RunRow): string {
  const { run, proxy, mode, counts, failure, seconds, commit, date, kubernetes, kernel } = row;
  const { counted = "", count = "", failed = "", connections = "", broken = "" } = counts ?? {};
  const results = [counted, count, failed, connections, broken, Math.round(seconds), failure];
  const cells = [run, proxy, mode, ...results, commit, date, kubernetes, kernel];
  return withRows(earlier, head, [cells], 3);
}
