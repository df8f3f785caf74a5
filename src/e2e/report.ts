/** Formats the outcomes of all checks as a table or as JSON. Pure. */
import { apiVersion, type Envelope } from "../answer/answers.ts";
import { rendered, table, type View } from "../answer/render.ts";
import type { NamedOutcome, Result } from "./outcome.ts";

export type ReportFormat = "table" | "json";

export interface AcceptanceReport extends Envelope<"AcceptanceReport"> {
  readonly verdict: "Passed" | "Failed";
  readonly checks: readonly NamedOutcome[];
}

export function reportText(checks: readonly NamedOutcome[], format: ReportFormat): string {
  const verdict = hasFailed(checks) ? "Failed" : "Passed";
  const report: AcceptanceReport = { apiVersion, kind: "AcceptanceReport", verdict, checks };
  return rendered(report, reportView, format, {});
}

export function hasFailed(outcomes: readonly NamedOutcome[]): boolean {
  return outcomes.some(({ result }) => result === "failed");
}

const reportView: View<AcceptanceReport> = {
  blocks: ({ checks }) => {
    const count = (wanted: Result): string =>
      `${checks.filter(({ result }) => result === wanted).length} ${wanted}`;
    return [
      table<NamedOutcome>(
        [
          { title: "CHECK", cell: ({ check }) => check },
          { title: "RESULT", cell: ({ result }) => result },
          { title: "DETAIL", cell: ({ detail }) => detail },
        ],
        checks,
      ),
      "",
      [count("ok"), count("failed"), count("not applicable")].join(", "),
    ];
  },
};
