/** Result tables in the report. Each run replaces some rows. Pure. */

export type Row = readonly (string | number)[];

/** Adds rows to the table `earlier`. Each new row replaces the old row whose first `keys` columns are the same. */
export function withRows(earlier: string, head: Row, rows: readonly Row[], keys: number): string {
  const keyOf = (line: string): string => line.split("\t").slice(0, keys).join("\t");
  const [first = "", ...lines] = tabSeparated([head, ...rows]);
  const replaced = new Set(lines.map(keyOf));
  const kept = earlier
    .split("\n")
    .slice(1)
    .filter((line) => line !== "" && !replaced.has(keyOf(line)));
  return [first, ...kept, ...lines, ""].join("\n");
}

/** One line per row. Spaces replace tabs and line breaks in cells. */
export function tabSeparated(rows: readonly Row[]): readonly string[] {
  return rows.map((cells) => cells.map((cell) => String(cell).replace(/\s+/g, " ")).join("\t"));
}
