/** Findings as a table, JSON or YAML. Pure. */
import { yamlText } from "../base/yaml.ts";
import { counted, type Finding, type Verdict, worstVerdict } from "./check.ts";
import type { Examination } from "./examine.ts";
import type { DoctorFormat } from "./formats.ts";

export function renderExamination(
  examination: Examination,
  format: DoctorFormat,
  hasColour: boolean,
): string {
  switch (format) {
    case "json":
      return `${JSON.stringify(objectOf(examination), undefined, 2)}\n`;
    case "yaml":
      return yamlText(objectOf(examination));
    case "table":
      return tableText(examination, hasColour);
  }
}

/** The form is part of what scripts rely on. */
function objectOf({ findings, skipped }: Examination): object {
  return { verdict: worstVerdict(findings), checks: findings, skipped };
}

const headings = { verdict: "VERDICT", name: "CHECK", evidence: "EVIDENCE" } as const;

/** SGR codes of ECMA-48. */
const colours: Readonly<Record<Verdict, number>> = { ok: 32, unknown: 36, warn: 33, fail: 31 };

function tableText({ findings, skipped }: Examination, hasColour: boolean): string {
  const widths = {
    verdict: headings.verdict.length,
    name: Math.max(...[headings, ...findings].map(({ name }) => name.length)),
  };
  const indent = " ".repeat(widths.verdict + widths.name + 4);
  const rows = findings.flatMap((finding) => [
    line(finding, widths, hasColour ? colours[finding.verdict] : undefined),
    ...advice(finding).map((text) => `${indent}${text}`),
  ]);
  const notMade = [...groupedReasons(skipped)].map(
    ([reason, names]) => `Skipped, since ${reason}: ${names.join(", ")}`,
  );
  const parts = [line(headings, widths), ...rows, "", ...notMade, summaryText(findings)];
  return `${parts.join("\n")}\n`;
}

function line(
  { verdict, name, evidence }: Readonly<Record<keyof typeof headings, string>>,
  widths: { readonly verdict: number; readonly name: number },
  colour?: number,
): string {
  const padded = verdict.padEnd(widths.verdict);
  const shown = colour === undefined ? padded : `\u001b[${colour}m${padded}\u001b[0m`;
  return `${shown}  ${name.padEnd(widths.name)}  ${evidence}`;
}

/** What is right needs no advice. */
function advice({ verdict, remedy, why }: Finding): readonly string[] {
  if (verdict === "ok") return [];
  return [`why: ${why}`, ...(remedy === undefined ? [] : [`remedy: ${remedy}`])];
}

function groupedReasons(skipped: Examination["skipped"]): ReadonlyMap<string, readonly string[]> {
  const grouped = new Map<string, string[]>();
  for (const { name, reason } of skipped)
    grouped.set(reason, [...(grouped.get(reason) ?? []), name]);
  return grouped;
}

/** `23 checks: 20 ok, 2 warn, 1 fail`. */
function summaryText(findings: readonly Finding[]): string {
  const counts = (["ok", "unknown", "warn", "fail"] as const).flatMap((verdict) => {
    const count = findings.filter((finding) => finding.verdict === verdict).length;
    return count === 0 ? [] : [`${count} ${verdict}`];
  });
  return `${counted(findings.length, "check")}: ${counts.join(", ")}`;
}
