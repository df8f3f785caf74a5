/**
 * Runs the faults in the lab: `node test/lab/boot.ts -- node test/faults/main.ts [--form long] [--rows TEXT] [--minutes
 * N]`. Each round runs a share of every row, so that all rows are shortened equally if time runs out. Writes the table
 * to standard error and the results as JSON to standard output. Exit status 1: a row failed.
 */
import { parseArgs } from "node:util";
import { skippedOnHost } from "../support/machine-wide.ts";
import { FaultyNode } from "./faulty-node.ts";
import type { Form, Row, RowResult } from "./row.ts";
import { rows } from "./rows.ts";
import { addResults, assertHolds, runRow } from "./run-row.ts";
import { resultTable } from "./table.ts";

const { values } = parseArgs({
  options: {
    form: { type: "string", default: "long" },
    /** Runs only rows with matching names. */
    rows: { type: "string", default: "" },
    /** Number of tries, which overrides the form's. */
    times: { type: "string" },
    /** No row starts after this number of minutes. */
    minutes: { type: "string", default: "180" },
  },
});
const form: Form = values.form === "short" ? "short" : "long";
const rounds = form === "short" ? 1 : 5;
const beginMs = performance.now();
const endMs = beginMs + Number(values.minutes) * 60_000;
const times = values.times === undefined ? {} : { [form]: Number(values.times) };
const chosen = rows
  .map((row) => ({ ...row, ...times }))
  .filter((row) => row[form] > 0 && new RegExp(values.rows, "i").test(row.name))
  .filter(isAllowedHere);
const results = new Map<string, RowResult>();

const node = await FaultyNode.build(100);
for (let round = 0; round < rounds; round++) {
  for (const row of chosen) if (performance.now() < endMs) await runShare(row, round);
}
await node.close();
const all = [...results.values()];
console.error(resultTable(all).join("\n"));
console.log(JSON.stringify({ form, results: all }, null, 2));

/** Prints which rows are skipped, and why. */
function isAllowedHere({ name, machineWide }: Row): boolean {
  const reason = machineWide !== undefined && skippedOnHost(machineWide);
  if (reason !== false) console.error(`${name}: skipped: ${reason}`);
  return reason === false;
}

async function runShare(row: Row, round: number): Promise<void> {
  const upTo = (end: number): number => Math.ceil((row[form] * end) / rounds);
  const share = { ...row, [form]: upTo(round + 1) - upTo(round) };
  if (share[form] === 0) return;
  const result = await runRow(share, node, form);
  const before = results.get(row.name);
  results.set(row.name, before === undefined ? result : addResults(before, result));
  const minute = ((performance.now() - beginMs) / 60_000).toFixed(1);
  try {
    assertHolds(result);
    console.error(`minute ${minute}, round ${round + 1}, ${row.name}: ${result.tried} held`);
  } catch (error) {
    process.exitCode = 1;
    console.error(`minute ${minute}, round ${round + 1}, ${row.name}: ${String(error)}`);
  }
}
