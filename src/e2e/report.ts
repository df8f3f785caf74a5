/** Formats the outcomes of all checks as a table or as JSON. Pure. */
import { rendered, table, type View } from "../answer/render.ts";
import type { NamedOutcome, Result } from "./outcome.ts";

export type ReportFormat = "table" | "json";

export function reportText(checks: readonly NamedOutcome[], format: ReportFormat): string {
  const verdict = hasFailed(checks) ? "Failed" : "Passed";
  const report = { apiVersion: "kube-ipvs/v1", kind: "AcceptanceReport", verdict, checks };
  return rendered(report, reportView, format, {});
}

export function hasFailed(outcomes: readonly NamedOutcome[]): boolean {
  return outcomes.some(({ result }) => result === "failed");
}

const reportView: View<{ readonly checks: readonly NamedOutcome[] }> = {
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
