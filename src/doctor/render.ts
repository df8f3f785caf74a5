/** Findings as a table, JSON or YAML. Pure. */
import { counted } from "../base/counted.ts";
import { answerText } from "../base/structured-text.ts";
import { type Column, tableLines } from "../base/table.ts";
import { type Finding, type Verdict, verdicts, worstVerdict } from "./check.ts";
import type { Examination } from "./examine.ts";

export function renderExamination(
  examination: Examination,
  format: string | undefined,
  hasColor: boolean,
): string {
  return answerText(format, objectOf(examination), () => tableText(examination, hasColor));
}

/** The form is part of what scripts rely on. */
function objectOf({ findings, skipped }: Examination): object {
  return { verdict: worstVerdict(findings), checks: findings, skipped };
}

const columns: readonly Column<Finding>[] = [
  { title: "VERDICT", text: ({ verdict }) => verdict },
  { title: "CHECK", text: ({ name }) => name },
  { title: "EVIDENCE", text: ({ evidence }) => evidence },
];

/** SGR codes of ECMA-48. */
const colors: Readonly<Record<Verdict, number>> = { ok: 32, unknown: 36, warn: 33, fail: 31 };

function tableText({ findings, skipped }: Examination, hasColor: boolean): string {
  const [titles = "", ...lines] = tableLines(columns, findings);
  const verdictWidth = titles.indexOf("  CHECK");
  const indent = " ".repeat(titles.indexOf("EVIDENCE"));
  const rows = findings.flatMap((finding, index) => {
    const line = lines[index] ?? "";
    const verdict = `\u001b[${colors[finding.verdict]}m${line.slice(0, verdictWidth)}\u001b[0m`;
    const shown = hasColor ? verdict + line.slice(verdictWidth) : line;
    return [shown, ...advice(finding).map((text) => `${indent}${text}`)];
  });
  const reasons = Map.groupBy(skipped, ({ reason }) => reason);
  const notMade = [...reasons].map(
    ([reason, checks]) => `Skipped, since ${reason}: ${checks.map(({ name }) => name).join(", ")}`,
  );
  return `${[titles, ...rows, "", ...notMade, summaryText(findings)].join("\n")}\n`;
}

/** What is right needs no advice. */
function advice({ verdict, remedy, why }: Finding): readonly string[] {
  if (verdict === "ok") return [];
  return [`why: ${why}`, ...(remedy === undefined ? [] : [`remedy: ${remedy}`])];
}

/** `23 checks: 20 ok, 2 warn, 1 fail`. */
function summaryText(findings: readonly Finding[]): string {
  const counts = verdicts.flatMap((verdict) => {
    const count = findings.filter((finding) => finding.verdict === verdict).length;
    return count === 0 ? [] : [`${count} ${verdict}`];
  });
  return `${counted(findings.length, "check")}: ${counts.join(", ")}`;
}
