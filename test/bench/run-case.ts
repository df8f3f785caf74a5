/**
 * One case, in a process and a network namespace of its own: `run-case.ts NAME FILE` writes the result as JSON to
 * FILE and each step as a line to standard output.
 */
import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import type { CaseOutcome } from "./case.ts";
import { cases } from "./cases.ts";
import type { CaseResult } from "./rows.ts";

const [name = "", file = ""] = process.argv.slice(2);
const one = cases.find((candidate) => candidate.name === name);
if (one === undefined) throw new Error(`No case ${name}`);

const peer = process.env["BENCH_PEER"] || undefined;
const startedAt = new Date().toISOString();
const loadBefore = loadavg()[0] ?? 0;
const beganMs = performance.now();
let outcome: CaseOutcome = { rows: [] };
let failure: string | undefined;
try {
  outcome = await one.run({
    step: (text) => console.log(text),
    ...(peer === undefined ? {} : { peer }),
  });
} catch (error) {
  failure = error instanceof Error ? (error.stack ?? error.message) : String(error);
}
const result: CaseResult = {
  name,
  title: one.title,
  startedAt,
  elapsedSeconds: (performance.now() - beganMs) / 1_000,
  load: [loadBefore, loadavg()[0] ?? 0],
  rows: outcome.rows,
  growth: outcome.growth ?? [],
  ...(peer === undefined ? {} : { peer }),
  ...(failure === undefined ? {} : { failure }),
};
writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
process.exit(failure === undefined ? 0 : 1);
