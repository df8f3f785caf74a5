/** The outcomes of all checks as a table or as JSON. Pure. */
import { table } from "../answer/render.ts";
import type { NamedOutcome, Result } from "./outcome.ts";

export type ReportFormat = "table" | "json";

export function reportText(outcomes: readonly NamedOutcome[], format: ReportFormat): string {
  return format === "json" ? jsonText(outcomes) : `${tableText(outcomes).join("\n")}\n`;
}

export function hasFailed(outcomes: readonly NamedOutcome[]): boolean {
  return outcomes.some(({ result }) => result === "failed");
}

function tableText(outcomes: readonly NamedOutcome[]): readonly string[] {
  const lines = table<NamedOutcome>(
    [
      { title: "CHECK", cell: ({ check }) => check },
      { title: "RESULT", cell: ({ result }) => result },
      { title: "DETAIL", cell: ({ detail }) => detail },
    ],
    outcomes,
  )({});
  const count = (wanted: Result): number =>
    outcomes.filter(({ result }) => result === wanted).length;
  const sum = `${count("ok")} ok, ${count("failed")} failed, ${count("not applicable")} not applicable`;
  return [...lines, "", sum];
}

function jsonText(checks: readonly NamedOutcome[]): string {
  const verdict = hasFailed(checks) ? "Failed" : "Passed";
  const report = { apiVersion: "kube-ipvs/v1", kind: "AcceptanceReport", verdict, checks };
  return `${JSON.stringify(report, undefined, 2)}\n`;
}
