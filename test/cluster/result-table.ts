/** Tables of results in the report, of which each run replaces some rows. Pure. */

type Row = readonly (string | number)[];

/** Replaces the rows of the table `earlier` that have the same first `keys` columns as one of `rows`. */
export function withRows(earlier: string, head: Row, rows: readonly Row[], keys: number): string {
  const keyOf = (line: string): string => line.split("\t").slice(0, keys).join("\t");
  const lines = rows.map((row) => row.join("\t"));
  const replaced = new Set(lines.map(keyOf));
  const kept = earlier
    .split("\n")
    .slice(1)
    .filter((line) => line !== "" && !replaced.has(keyOf(line)));
  return [head.join("\t"), ...kept, ...lines, ""].join("\n");
}
