/**
 * Writes docs/reports/data/faults.tsv: `node test/faults/write-document.ts build/faults.json…`. Adds up the results for
 * the same fault from several files.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RowResult } from "./row.ts";
import { rows } from "./rows.ts";
import { addResults } from "./run-row.ts";
import { resultData } from "./table.ts";

const data = join(import.meta.dirname, "../../docs/reports/data/faults.tsv");

interface Results {
  readonly results: readonly RowResult[];
}

const runs = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, "utf8")) as Results);
const results = rows.flatMap(({ name }) => {
  const ofRow = runs.flatMap((run) => run.results.filter((result) => result.name === name));
  return ofRow.length === 0 ? [] : [ofRow.reduce(addResults)];
});
writeFileSync(data, resultData(results));
