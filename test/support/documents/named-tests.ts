/**
 * Finds the tests that a document names in its tables: `[drains](../test/lab/drains.test.ts) "is cut at the deadline"`.
 */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

export interface NamedTest {
  /** Path, relative to the document's folder. */
  readonly file: string;
  readonly title: string;
}

/** The tests that a cell names. */
export function testsOf(cell: string): readonly NamedTest[] {
  const found = cell.matchAll(/\]\((\.\.\/test\/[^)]+)\) "([^"]+)"/g);
  return [...found].map(([, file = "", title = ""]) => ({ file, title }));
}

/** Whether the file has a test whose title contains this text. `…` in the text matches any characters. */
export function isThere(documentPath: string, { file, title }: NamedTest): boolean {
  const parts = title.split("…").map((part) => part.trim());
  const isTitle = (known: string): boolean => {
    let end = 0;
    return parts.every((part) => {
      const start = known.indexOf(part, end);
      end = start + part.length;
      return start >= 0;
    });
  };
  return titlesIn(join(dirname(documentPath), file)).some(isTitle);
}

/** Titles of tests, suites and tables of cases, without placeholders. */
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
