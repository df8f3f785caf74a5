/** The table of faults in the report. Pure. */
import { withRows } from "./result-table.ts";

export interface FaultResult {
  /** What happened. */
  readonly fault: string;
  /** Until all nodes served the endpoint that was changed afterwards. Undefined: they never did. */
  readonly seconds: number | undefined;
  /** Connections that were open before, during and after the fault. */
  readonly held: number;
  readonly broken: number;
  readonly commit: string;
  readonly date: string;
}

const head = [
  ...["fault", "seconds until a changed endpoint serves", "connections", "broken"],
  ...["commit", "date"],
];

/** The lines of `earlier` with those of `results` in place of the same faults. */
export function withResults(earlier: string, results: readonly FaultResult[]): string {
  const rows = results.map(({ fault, seconds, held, broken, commit, date }) => {
    return [fault, seconds?.toFixed(1) ?? "never", held, broken, commit, date];
  });
  return withRows(earlier, head, rows, 1);
}
