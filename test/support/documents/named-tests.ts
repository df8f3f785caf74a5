/** Tests that a document names in its tables: `[drains](../test/lab/drains.test.ts) "is cut at the deadline"`. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

export interface NamedTest {
  /** From the document's folder. */
  readonly file: string;
  readonly title: string;
}

/** Those that a cell names. */
export function testsOf(cell: string): readonly NamedTest[] {
  const found = cell.matchAll(/\]\((\.\.\/test\/[^)]+)\) "([^"]+)"/g);
  return [...found].map(([, file = "", title = ""]) => ({ file, title }));
}

/** Says whether the file has a test of which this is the title, or a part of it. */
export function isThere(documentPath: string, { file, title }: NamedTest): boolean {
  return titlesIn(join(dirname(documentPath), file)).some((known) => known.includes(title));
}

/** Titles of cases, suites and tables of cases; what stands in for a name is left out. */
function titlesIn(path: string): readonly string[] {
  const text = readFileSync(path, "utf8");
  const strings = text.matchAll(
    /(?:\b(?:it|describe)\(\s*|\b(?:name|title): |^ {2}\[)(["`])(.*?)\1/gm,
  );
  return [...strings].map(([, , title = ""]) => title);
}

/** Cells of all tables, without headings. */
export function rowsOf(lines: readonly string[]): readonly (readonly string[])[] {
  const isRow = (line: string, index: number): boolean =>
    line.startsWith("| ") && !(lines[index + 1] ?? "").startsWith("|---");
  return lines.filter(isRow).map((line) => line.slice(2, -2).split(" | "));
}
