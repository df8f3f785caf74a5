/** The table of faults in the report. Pure. */
import { withRows } from "./result-table.ts";

export interface FaultResult {
  /** As in ONLY. */
  readonly name: string;
  /** Description of the fault. */
  readonly fault: string;
  /** Time until all nodes served the endpoint that was changed after the fault. Undefined if this never happened. */
  readonly seconds: number | undefined;
  /** Connections that were open before, during and after the fault. */
  readonly held: number;
  readonly broken: number;
  readonly commit: string;
  readonly date: string;
}

const head = [
  ...["name", "fault", "seconds until a changed endpoint serves", "connections", "broken"],
  ...["commit", "date"],
];

/** Returns the lines of `earlier`, with those of the same faults replaced by `results`. */
export function withResults(earlier: string, results: readonly FaultResult[]): string {
  const rows = results.map(({ name, fault, seconds, held, broken, commit, date }) => {
    return [name, fault, seconds?.toFixed(1) ?? "never", held, broken, commit, date];
  });
  return withRows(earlier, head, rows, 1);
}
