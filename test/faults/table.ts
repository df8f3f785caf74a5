/** Formats row results as a table. Pure. */
import type { RowResult } from "./row.ts";

const head = [
  "Fault",
  "Tried",
  "Open connections",
  "Broken",
  "New connections",
  "Failed",
  "Repair, median",
  "Repair, worst",
];

/** Lines of an aligned Markdown table, with the reasons of failures below. */
export function resultTable(results: readonly RowResult[]): readonly string[] {
  const reasons = [...new Set(results.flatMap(({ mayFail }) => mayFail ?? []))];
  const body = results.map((result) => cells(result, reasons));
  const widths = head.map((title, column) =>
    Math.max(title.length, ...body.map((line) => line[column]?.length ?? 0)),
  );
  const line = (texts: readonly string[]): string =>
    `| ${texts.map((text, column) => (column === 0 ? text.padEnd(widths[column] ?? 0) : text.padStart(widths[column] ?? 0))).join(" | ")} |`;
  const rule = `| ${widths.map((width, column) => (column === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`)).join(" | ")} |`;
  const notes = [
    ...reasons.map((reason, index) => `${"*".repeat(index + 1)} ${reason}`),
    ...results.flatMap(({ name, failure }) => (failure === undefined ? [] : `${name}: ${failure}`)),
  ];
  return [line(head), rule, ...body.map(line), ...(notes.length > 0 ? ["", ...notes] : [])];
}

/** The same data as tab-separated values. */
export function resultData(results: readonly RowResult[]): string {
  const reasons = [...new Set(results.flatMap(({ mayFail }) => mayFail ?? []))];
  return [head, ...results.map((result) => cells(result, reasons))]
    .map((line) => `${line.join("\t")}\n`)
    .join("");
}

function cells(result: RowResult, reasons: readonly string[]): readonly string[] {
  const { name, tried, long, broken, short, failed, repairMs, mayFail } = result;
  const star = mayFail === undefined ? "" : ` ${"*".repeat(reasons.indexOf(mayFail) + 1)}`;
  const counts = [tried, long, broken, short].map(String);
  const sorted = repairMs.toSorted((one, other) => one - other);
  const times = [median(sorted), sorted.at(-1) ?? 0].map((ms) => `${(ms / 1_000).toFixed(2)} s`);
  return [name, ...counts, `${failed}${star}`, ...times];
}

/** Median of sorted numbers: the lower one of two middle numbers. */
function median(sorted: readonly number[]): number {
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
}
