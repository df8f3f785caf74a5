/**
 * Puts the table of the results into docs/reports/reliability.md: `node test/faults/write-document.ts build/faults.json…`. What
 * several files hold of a row is added up.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RowResult } from "./row.ts";
import { rows } from "./rows.ts";
import { addResults } from "./run-row.ts";
import { resultTable } from "./table.ts";

const document = join(import.meta.dirname, "../../docs/reports/reliability.md");
const begin = "<!-- faults: written by make faults -->";
const end = "<!-- end of faults -->";

interface Results {
  readonly form: string;
  readonly results: readonly RowResult[];
}

const runs = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, "utf8")) as Results);
const form = [...new Set(runs.map((run) => run.form))].join(" and ");
const results = rows.flatMap(({ name }) => {
  const ofRow = runs.flatMap((run) => run.results.filter((result) => result.name === name));
  return ofRow.length === 0 ? [] : [ofRow.reduce(addResults)];
});
const text = readFileSync(document, "utf8");
const [start, stop] = [text.indexOf(begin), text.indexOf(end)];
if (start < 0 || stop < start)
  throw new Error(`${document} lacks the lines «${begin}» and «${end}»`);
const body = [begin, "", `In the ${form} form.`, "", ...resultTable(results), "", ""];
writeFileSync(document, text.slice(0, start) + body.join("\n") + text.slice(stop));
