/** Shows findings to people. Pure. */
import type { Envelope } from "../answer/answers.ts";
import { type Column, table, type View } from "../answer/render.ts";
import { counted } from "../base/counted.ts";
import { type Finding, type SkippedCheck, type Verdict, verdicts } from "./check.ts";

/** Select Graphic Rendition codes of ECMA-48. */
const colors: Readonly<Record<Verdict, number>> = { ok: 32, unknown: 36, warn: 33, fail: 31 };

export const doctorColumns: readonly Column<Pick<Finding, "verdict" | "name" | "evidence">>[] = [
  {
    title: "VERDICT",
    cell: ({ verdict }) => verdict,
    color: ({ verdict }) => colors[verdict],
  },
  { title: "CHECK", cell: ({ name }) => name },
  { title: "EVIDENCE", cell: ({ evidence }) => evidence },
];

/** Scripts rely on this format. */
export interface DoctorReport extends Envelope<"DoctorReport"> {
  /** The worst verdict of all checks. */
  readonly verdict: Verdict;
  readonly checks: readonly Finding[];
  readonly skipped: readonly SkippedCheck[];
}

export const doctorView: View<DoctorReport> = {
  blocks: ({ checks, skipped }) => {
    const reasons = Map.groupBy(skipped, ({ reason }) => reason);
    const texts = [...reasons].map(
      ([reason, these]) => `Skipped because ${reason}: ${these.map(({ name }) => name).join(", ")}`,
    );
    return [table(doctorColumns, checks, { advice }), "", ...texts, summaryText(checks)];
  },
  names: ({ checks }) => checks.map(({ name }) => name),
};

/** The lines below a check that is not ok. */
function advice({ verdict, remedy, why }: Finding): readonly string[] {
  if (verdict === "ok") return [];
  return [`why: ${why}`, ...(remedy === undefined ? [] : [`remedy: ${remedy}`])];
}

/** Counts the findings by verdict: `23 checks: 20 ok, 2 warn, 1 fail`. */
function summaryText(findings: readonly Finding[]): string {
  const counts = verdicts.flatMap((verdict) => {
    const count = findings.filter((finding) => finding.verdict === verdict).length;
    return count === 0 ? [] : [`${count} ${verdict}`];
  });
  return `${counted(findings.length, "check")}: ${counts.join(", ")}`;
}
