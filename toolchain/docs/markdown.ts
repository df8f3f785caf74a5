/** Small parts of generated documents. */

/** A table whose columns line up in the source too. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  const cells = [head, ...rows].map((row) => row.map(cellText));
  const widths = head.map((_, column) =>
    Math.max(3, ...cells.map((row) => [...(row[column] ?? "")].length)),
  );
  const line = (row: readonly string[]): string =>
    `| ${widths.map((width, column) => padded(row[column] ?? "", width)).join(" | ")} |`;
  const [first = [], ...others] = cells;
  return [
    line(first),
    `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`,
    ...others.map(line),
  ];
}

export function code(text: string): string {
  return text === "" ? "" : `\`${text}\``;
}

/** Lines with one blank line between the parts, and a line end. */
export function documentOf(parts: readonly (readonly string[])[]): string {
  return `${parts.map((part) => part.join("\n")).join("\n\n")}\n`;
}

function cellText(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

function padded(text: string, width: number): string {
  return text + " ".repeat(width - [...text].length);
}
