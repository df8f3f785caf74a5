/**
 * Runs the faults in the lab: `node test/lab/boot.ts -- node test/faults/main.ts [--form long] [--rows TEXT]`.
 * The table goes to standard error, the results as JSON to standard output. Exit status 1: a row does not hold.
 */
import { parseArgs } from "node:util";
import type { Form, RowResult } from "./row.ts";
import { rows } from "./rows.ts";
import { assertHolds, runRow } from "./run-row.ts";
import { resultTable } from "./table.ts";
import { World } from "./world.ts";

const { values } = parseArgs({
  options: {
    form: { type: "string", default: "long" },
    /** Only rows whose names match. */
    rows: { type: "string", default: "" },
    /** So often instead of as often as the form says. */
    times: { type: "string" },
  },
});
const form: Form = values.form === "short" ? "short" : "long";
const times = values.times === undefined ? {} : { [form]: Number(values.times) };
const chosen = rows
  .map((row) => ({ ...row, ...times }))
  .filter((row) => row[form] > 0 && new RegExp(values.rows, "i").test(row.name));
const world = await World.build(100);
const results: RowResult[] = [];
for (const row of chosen) {
  const beginMs = performance.now();
  try {
    const result = await runRow(row, world, form);
    results.push(result);
    assertHolds(result);
  } catch (error) {
    process.exitCode = 1;
    console.error(`${row.name}: ${String(error)}`);
  }
  console.error(`${row.name}: ${((performance.now() - beginMs) / 1_000).toFixed(1)} s`);
}
await world.close();
console.error(resultTable(results).join("\n"));
console.log(JSON.stringify({ form, results }, null, 2));
