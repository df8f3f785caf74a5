/** Lines of the demo: steps, facts, verdicts. Colour only where a person looks. */
const hasColour = process.env["DEMO_COLOUR"] === "yes";

function paint(code: number, text: string): string {
  return hasColour ? `\u001b[${code}m${text}\u001b[0m` : text;
}

export function showStep(number: number, title: string): void {
  console.log(`\n${paint(1, `${number}. ${title}`)}`);
}

/** Something to look at, indented below the step. */
export function show(text: string): void {
  for (const line of text.trimEnd().split("\n")) console.log(`     ${line}`);
}

/** A line with its verdict in front. */
export function showVerdict(isGood: boolean, text: string): void {
  console.log(`  ${isGood ? paint(32, "ok") : paint(31, "NO")} ${text}`);
}

export function showEnd(failed: number, seconds: number): void {
  const time = `${seconds.toFixed(0)} s`;
  if (failed === 0) console.log(`\n${paint(32, "The demo holds")}: every step, ${time}`);
  else console.log(`\n${paint(31, "The demo failed")}: ${failed} of the checks above, ${time}`);
}

/** Rows under headings, columns aligned. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
