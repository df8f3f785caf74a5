/** Results as one aligned table. */
import { type CaseResult, type Row, summarize, type Verdict, verdictOf } from "./rows.ts";

export const columns = [
  "subject",
  "figure",
  "measured",
  "target",
  "",
  "median",
  "p95",
  "least – most",
  "messages",
  "processes",
  "resident",
] as const;

const leftAligned: ReadonlySet<string> = new Set(["subject", "figure", "target", ""]);

/** One row, with a text for each column. */
export function cells(row: Row): readonly string[] {
  const summary = summarize(row.samples);
  const withUnit = (value: number): string => quantity(value, row.unit);
  const optional = (value: number | undefined, unit = ""): string =>
    value === undefined ? "" : quantity(value, unit);
  return [
    row.subject,
    row.what,
    withUnit(row.value),
    row.target?.text ?? "",
    verdictOf(row),
    summary === undefined ? "" : withUnit(summary.median),
    summary === undefined ? "" : withUnit(summary.p95),
    summary === undefined ? "" : `${number(summary.least)} – ${withUnit(summary.most)}`,
    optional(row.messages),
    optional(row.processes),
    optional(row.residentMb, "MB"),
  ];
}

/** A value with its unit: `1.1 ms`, `1.1%`. */
export function quantity(value: number, unit: string): string {
  return `${number(value)}${unit === "%" ? "" : " "}${unit}`.trim();
}

/** Three significant figures, with commas between thousands. */
export function number(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** Formats the whole table, optionally with colors. */
export function tableText(results: readonly CaseResult[], hasColor: boolean): string {
  const body = results.map((result) => ({ result, rows: result.rows.map(cells) }));
  const all = [columns, ...body.flatMap(({ rows }) => rows)];
  const widths = columns.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((text, at) => {
        const width = widths[at] ?? 0;
        const isLeft = leftAligned.has(columns[at] ?? "");
        return paint(isLeft ? text.padEnd(width) : text.padStart(width), text, hasColor);
      })
      .join("  ")
      .trimEnd();
  const parts = body.map(({ result, rows }) =>
    [bold(caseHead(result), hasColor), ...rows.map(line), ...failureLines(result)].join("\n"),
  );
  return [line(columns), "", parts.join("\n\n")].join("\n");
}

function caseHead({ name, title, elapsedSeconds, load }: CaseResult): string {
  const loads = loadText(load);
  return `${name}: ${title} (${elapsedSeconds.toFixed(0)} s, load ${loads})`;
}

/** The range of a machine's load averages: `0.8 to 1.6`. */
export function loadText(load: readonly number[]): string {
  return [Math.min(...load), Math.max(...load)].map((one) => one.toFixed(1)).join(" to ");
}

function failureLines({ failure }: CaseResult): readonly string[] {
  return failure === undefined ? [] : [`FAILED: ${failure}`];
}

const colors: Readonly<Partial<Record<string, string>>> = { pass: "32", MISS: "31;1" };

function paint(padded: string, text: string, hasColor: boolean): string {
  const color = colors[text];
  return hasColor && color !== undefined ? `\u001b[${color}m${padded}\u001b[0m` : padded;
}

function bold(text: string, hasColor: boolean): string {
  return hasColor ? `\u001b[1m${text}\u001b[0m` : text;
}

/** Numbers of counts and figures that passed and missed: `18 pass, 2 MISS`. */
export function totals(results: readonly CaseResult[]): string {
  const rows = results.flatMap((result) => result.rows);
  const count = (kind: Row["kind"], verdict: Verdict): number =>
    rows.filter((row) => row.kind === kind && verdictOf(row) === verdict).length;
  return (
    `counts: ${count("count", "pass")} correct, ${count("count", "MISS")} wrong; ` +
    `times and memory: ${count("figure", "pass")} within target, ${count("figure", "MISS")} not`
  );
}
