/** Lines of the demo: steps, facts and verdicts. Colors are used only on a terminal. */
const hasColor = process.env["DEMO_COLOUR"] === "yes";

function paint(code: number, text: string): string {
  return hasColor ? `\u001b[${code}m${text}\u001b[0m` : text;
}

const patienceMs = 2_000;
let hasOpenDots = false;
let dots: NodeJS.Timeout | undefined;

/** From now until the end, prints a dot whenever two seconds pass without a line. */
export function startDots(): void {
  clearInterval(dots);
  dots = setInterval(() => {
    process.stdout.write(hasOpenDots ? "." : "     .");
    hasOpenDots = true;
  }, patienceMs);
}

function print(text: string): void {
  console.log(hasOpenDots ? `\n${text}` : text);
  hasOpenDots = false;
  dots?.refresh();
}

export function showStep(number: number, title: string): void {
  print(`\n${paint(1, `${number}. ${title}`)}`);
}

/** Prints a text indented below the step. */
export function show(text: string): void {
  for (const line of text.trimEnd().split("\n")) print(`     ${line}`);
}

/** Prints a line that begins with its verdict. */
export function showVerdict(isGood: boolean, text: string): void {
  print(`  ${isGood ? paint(32, "ok") : paint(31, "NO")} ${text}`);
}

export function showEnd(failed: number, seconds: number): void {
  clearInterval(dots);
  dots = undefined;
  const time = `${seconds.toFixed(0)} s`;
  const next = "Next, run make shell and follow docs/quick-start.md";
  if (failed === 0) print(`\n${paint(32, "The demo passed")}: every step, ${time}\n${next}`);
  else print(`\n${paint(31, "The demo failed")}: ${failed} of the checks above, ${time}`);
}

/** Formats rows under headings with aligned columns. */
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
