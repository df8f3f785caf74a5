/**
 * Runs one case in its own process and network namespace: `run-case.ts NAME FILE SECONDS` writes the result to FILE as
 * JSON after at most SECONDS, and prints a line for each step.
 */
import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { peerTitle } from "../support/peer.ts";
import type { CaseOutcome } from "./case.ts";
import { cases } from "./cases.ts";
import { version } from "./document.ts";
import type { CaseResult } from "./rows.ts";

const [name = "", file = "", seconds = ""] = process.argv.slice(2);
const one = cases.find((candidate) => candidate.name === name);
if (one === undefined) throw new Error(`No case ${name}`);
const { title } = one;

const peer = process.env["BENCH_PEER"] || undefined;
const startedAt = new Date().toISOString();
const loadBefore = loadavg()[0] ?? 0;
const beganMs = performance.now();
let kept: CaseOutcome = { rows: [] };
let lastStep = "";

function finish(outcome: CaseOutcome, failure?: string): never {
  const result: CaseResult = {
    name,
    title,
    version,
    startedAt,
    elapsedSeconds: (performance.now() - beganMs) / 1_000,
    load: [loadBefore, loadavg()[0] ?? 0],
    rows: outcome.rows,
    growth: outcome.growth ?? [],
    ...(peer === undefined ? {} : { peer: peerTitle(peer) }),
    ...(failure === undefined ? {} : { failure }),
  };
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  process.exit(failure === undefined ? 0 : 1);
}

setTimeout(
  () => finish(kept, `timed out after ${seconds} s, at: ${lastStep}`),
  Number(seconds) * 1_000,
);
try {
  finish(
    await one.run({
      step: (text) => {
        lastStep = text;
        console.log(text);
      },
      keep: (rows, growth = []) => {
        kept = { rows, growth };
      },
      ...(peer === undefined ? {} : { peer }),
    }),
  );
} catch (error) {
  finish(kept, error instanceof Error ? (error.stack ?? error.message) : String(error));
}
