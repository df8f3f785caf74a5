/** Result tables in the report. Each run replaces some rows. Pure. */

type Row = readonly (string | number)[];

/** Replaces the rows of the table `earlier` whose first `keys` columns equal those of one of `rows`. */
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
