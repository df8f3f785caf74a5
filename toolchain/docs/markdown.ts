/** Tables of documents. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const project: string = join(import.meta.dirname, "../..");

/** A table with columns that are also aligned in the source. */
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

/** Joins parts with one blank line between them and a final line break. */
export function documentOf(parts: readonly (readonly string[])[]): string {
  return `${parts.map((part) => part.join("\n")).join("\n\n")}\n`;
}

/**
 * Returns the document at a path, relative to the project's root, with each table after its mark, `<!-- table: NAME
 * -->`. Throws if a mark is unknown or a table has no mark.
 */
export function withTables(
  path: string,
  tables: Readonly<Record<string, readonly string[]>>,
): string {
  const missing = new Set(Object.keys(tables));
  const text = readFileSync(join(project, path), "utf8");
  const filled = text.replace(/^<!-- table: (.+) -->\n(?:\|.*\n)*/gm, (mark, name: string) => {
    if (!missing.delete(name)) throw new Error(`${path}: unknown table ${name}`);
    return [mark.split("\n")[0], ...(tables[name] ?? []), ""].join("\n");
  });
  if (missing.size === 0) return filled;
  throw new Error(`${path}: <!-- table: … --> is missing for ${[...missing].join(", ")}`);
}

function cellText(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

function padded(text: string, width: number): string {
  return text + " ".repeat(width - [...text].length);
}
