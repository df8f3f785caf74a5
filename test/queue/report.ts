/** Prints the results of a run. */
import type { Outcome } from "./job.ts";
import type { Run } from "./queue.ts";
import { readFailures, readNotes, readSkippedTests } from "./test-summary.ts";

/** Returns the exit status. */
export function printReport({ outcomes, seconds, ends }: Run, jobCount: number): number {
  printFailures(outcomes);
  printTable(outcomes);
  printNotes(outcomes);
  printTimes(seconds, outcomes, ends);
  printSkippedTests(outcomes);
  printTotal(outcomes);
  repeatFailures(outcomes);
  const isGreen =
    outcomes.length === jobCount && outcomes.every(({ failure }) => failure === undefined);
  return isGreen ? 0 : 1;
}

function printTable(outcomes: readonly Outcome[]): void {
  const width = Math.max(...outcomes.map(({ name }) => name.length));
  console.log(`\n${"suite".padEnd(width)}  seconds   cpu s  passed  failed  skipped`);
  for (const { name, seconds, cpuSeconds, summary } of outcomes) {
    const times = [seconds.toFixed(1).padStart(9), (cpuSeconds?.toFixed(1) ?? "-").padStart(8)];
    const counts = [summary?.passed, summary?.failed, summary?.skipped];
    const columns = counts.map((count, index) => String(count ?? "-").padStart(index < 2 ? 8 : 9));
    console.log(`${name.padEnd(width)}${times.join("")}${columns.join("")}`);
  }
}

/** Prints the counts and measurements that suites report. */
function printNotes(outcomes: readonly Outcome[]): void {
  for (const { name, output } of outcomes) {
    const notes = readNotes(output);
    if (notes.length > 0) console.log(`\n${name}\n${notes.map((note) => `  ${note}`).join("\n")}`);
  }
}

function printSkippedTests(outcomes: readonly Outcome[]): void {
  for (const { name, output } of outcomes)
    for (const test of readSkippedTests(output)) console.log(`${name}: skipped: ${test}`);
}

/** Prints how busy the processors were, and whether one of them was idle at the end. */
function printTimes(seconds: number, outcomes: readonly Outcome[], ends: readonly number[]): void {
  const cpuSeconds = outcomes.reduce((total, one) => total + (one.cpuSeconds ?? 0), 0);
  const done = ends.map((end) => `${end.toFixed(1)} s`).join(" and ");
  console.log(
    `\nTests: ${seconds.toFixed(1)} s in total, ${cpuSeconds.toFixed(1)} s of CPU time; the processors finished after ${done}`,
  );
}

function printTotal(outcomes: readonly Outcome[]): void {
  const sum = (count: "passed" | "failed" | "skipped"): number =>
    outcomes.reduce((total, { summary }) => total + (summary?.[count] ?? 0), 0);
  console.log(`${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped`);
}

function printFailures(outcomes: readonly Outcome[]): void {
  for (const { name, output, failure } of outcomes)
    if (failure !== undefined) console.log(`\n──── ${name}: ${failure}\n${output}`);
}

/** Prints each failure again in one line. These lines are last, because often only the end of a long log survives. */
function repeatFailures(outcomes: readonly Outcome[]): void {
  for (const { name, output, failure } of outcomes) {
    if (failure === undefined) continue;
    console.log(`\n${name}: ${failure.split("\n")[0]}`);
    for (const line of readFailures(output)) console.log(`  ${line}`);
  }
}
