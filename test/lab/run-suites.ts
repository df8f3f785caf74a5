/**
 * Runs the suites of the lab side by side and prints a table of their times:
 *
 *     node test/lab/run-suites.ts [NAME…]
 */
import { existsSync } from "node:fs";
import { availableParallelism, constants } from "node:os";
import { join } from "node:path";
import { skippedOnHost } from "../support/machine-wide.ts";
import { findLab, type Lab, runInLab } from "./lab.ts";
import type { LabResult } from "./lab-kernel.ts";
import { listSuites, type Suite } from "./suites.ts";
import {
  parseTestSummary,
  readFailingTests,
  readNotes,
  readSkippedTests,
  type TestSummary,
} from "./test-summary.ts";

type UsableLab = Exclude<Lab, { kind: "none" }>;

interface Run {
  readonly outcomes: readonly Outcome[];
  /** Of each processor: seconds from the begin until it had nothing left to run. */
  readonly ends: readonly number[];
}

interface Outcome {
  readonly suite: Suite;
  readonly seconds: number;
  /** Of this machine; undefined where the suite did not run to its end, or the lab does not count them. */
  readonly cpuSeconds: number | undefined;
  readonly output: string;
  readonly summary: TestSummary | undefined;
  /** Why the suite is not green. */
  readonly failure: string | undefined;
}

const processors: number = Math.min(2, availableParallelism());
const progressIntervalMs = 15_000;

async function runSuite(
  lab: UsableLab,
  suite: Suite,
  cpu: number,
  signal: AbortSignal,
): Promise<Outcome> {
  const chunks: Buffer[] = [];
  const keep = (chunk: Buffer): void => void chunks.push(chunk);
  const begin = performance.now();
  const running = setInterval(() => {
    console.log(`  ${suite.name}: running, ${secondsSince(begin).toFixed(0)} s`);
  }, progressIntervalMs);
  // Not by `node --test`: another Node.js, which would only pass on what this one reports.
  const command = [...withQuickNode(lab), "node", "--test-reporter=spec", suite.file];
  const output = { stdout: keep, stderr: keep };
  const result = await runInLab(lab, command, { ...suite.options, cpu }, output, signal);
  clearInterval(running);
  const text = Buffer.concat(chunks).toString();
  const summary = parseTestSummary(text);
  const failure = explainFailure(result, summary, suite);
  const cpuSeconds = result.kind === "exited" ? result.cpuSeconds : undefined;
  const seconds = secondsSince(begin);
  const outcome = { suite, seconds, cpuSeconds, output: text, summary, failure };
  const work = cpuSeconds === undefined ? "" : `, ${cpuSeconds.toFixed(1)} s of a processor`;
  console.log(`  ${suite.name}: ${failure ?? "passed"}, ${seconds.toFixed(1)} s${work}`);
  return outcome;
}

/** See quick-node/. */
function withQuickNode({ kind }: UsableLab): readonly string[] {
  const library = join(import.meta.dirname, "../../build/lab/quick-node.so");
  return kind === "lab-kernel" && existsSync(library) ? ["env", `LD_PRELOAD=${library}`] : [];
}

function explainFailure(
  result: LabResult,
  summary: TestSummary | undefined,
  suite: Suite,
): string | undefined {
  switch (result.kind) {
    case "timed-out":
      return `FAILED: not done after ${suite.options.timeoutSeconds} s`;
    case "stopped":
      return "stopped";
    case "died":
      return `FAILED: the lab ended before the suite did\n${result.console}`;
    case "exited":
      if (result.status !== 0) return `FAILED: ${describeStatus(result.status)}`;
      return summary === undefined || summary.passed === 0 ? "FAILED: no test ran" : undefined;
  }
}

/** As a shell gives it: above 128 a signal. */
function describeStatus(status: number): string {
  const [signal] =
    Object.entries(constants.signals).find(([, number]) => number === status - 128) ?? [];
  return signal === undefined ? `exit status ${status}` : `ended by ${signal}`;
}

function secondsSince(begin: number): number {
  return (performance.now() - begin) / 1000;
}

/**
 * Three lanes for each processor: one begins with the suites that work, two with those that mostly wait. With two lanes a
 * processor was idle for a sixth of the time. Each takes the next suite as soon as it is free.
 */
async function runAll(lab: UsableLab, suites: readonly Suite[], signal: AbortSignal): Promise<Run> {
  const begin = performance.now();
  const working = suites.filter(({ waits }) => !waits);
  const waiting = suites.filter(({ waits }) => waits);
  const outcomes: Outcome[] = [];
  const lane = async (cpu: number, next: () => Suite | undefined): Promise<void> => {
    for (let suite = next(); suite !== undefined; suite = next()) {
      if (signal.aborted) return;
      outcomes.push(await runSuite(lab, suite, cpu, signal));
    }
  };
  const processor = async (cpu: number): Promise<number> => {
    await Promise.all([
      lane(cpu, () => working.shift() ?? waiting.shift()),
      lane(cpu, () => waiting.shift() ?? working.shift()),
      lane(cpu, () => waiting.shift() ?? working.shift()),
    ]);
    return secondsSince(begin);
  };
  const ends = await Promise.all(Array.from({ length: processors }, (_, cpu) => processor(cpu)));
  return { outcomes, ends };
}

function printTable(outcomes: readonly Outcome[]): void {
  const width = Math.max(...outcomes.map(({ suite }) => suite.name.length));
  console.log(`\n${"suite".padEnd(width)}  seconds   cpu s  passed  failed  skipped`);
  for (const { suite, seconds, cpuSeconds, summary } of outcomes) {
    const times = [seconds.toFixed(1).padStart(9), (cpuSeconds?.toFixed(1) ?? "-").padStart(8)];
    const counts = [summary?.passed, summary?.failed, summary?.skipped];
    const columns = counts.map((count, index) => String(count ?? "-").padStart(index < 2 ? 8 : 9));
    console.log(`${suite.name.padEnd(width)}${times.join("")}${columns.join("")}`);
  }
}

/** What suites say of themselves: counts, measurements. */
function printNotes(outcomes: readonly Outcome[]): void {
  for (const { suite, output } of outcomes) {
    const notes = readNotes(output);
    if (notes.length > 0)
      console.log(`\n${suite.name}\n${notes.map((note) => `  ${note}`).join("\n")}`);
  }
}

function printSkippedTests(outcomes: readonly Outcome[]): void {
  for (const { suite, output } of outcomes)
    for (const test of readSkippedTests(output)) console.log(`${suite.name}: skipped: ${test}`);
}

/** How busy the processors were, and whether one of them was idle at the end. */
function printTimes(seconds: number, outcomes: readonly Outcome[], ends: readonly number[]): void {
  const cpuSeconds = outcomes.reduce((total, one) => total + (one.cpuSeconds ?? 0), 0);
  const done = ends.map((end) => `${end.toFixed(1)} s`).join(" and ");
  console.log(
    `\nLab: ${seconds.toFixed(1)} s in all, ${cpuSeconds.toFixed(1)} s of processors, which were done after ${done}`,
  );
}

function printTotal(outcomes: readonly Outcome[]): void {
  const sum = (count: "passed" | "failed" | "skipped"): number =>
    outcomes.reduce((total, { summary }) => total + (summary?.[count] ?? 0), 0);
  console.log(`${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped`);
}

function printFailures(outcomes: readonly Outcome[]): void {
  for (const { suite, output, failure } of outcomes) {
    if (failure === undefined) continue;
    console.log(`\n──── ${suite.name}: ${failure}\n${output}`);
  }
}

/** Once more, at the end: of a long log often only that is kept. */
function printFailingTests(outcomes: readonly Outcome[]): void {
  for (const { suite, output, failure } of outcomes) {
    if (failure === undefined) continue;
    console.log(`\n${suite.name}: ${failure}\n${readFailingTests(output)}\n`);
  }
}

/** Says which suites are skipped, and why. */
function isAllowed({ name, machineWide }: Suite, lab: UsableLab): boolean {
  const reason = machineWide !== undefined && skippedOnHost(machineWide, { LAB_KIND: lab.kind });
  if (reason !== false) console.log(`${name}: skipped: ${reason}`);
  return reason === false;
}

async function main(): Promise<number> {
  const lab = findLab();
  if (lab.kind === "none") {
    console.error(`lab: ${lab.missing}`);
    return 1;
  }
  const wanted = process.argv.slice(2);
  const hasNft = process.env["LAB_KERNEL"] !== undefined;
  const suites = listSuites(hasNft)
    .filter(({ name }) => wanted.length === 0 || wanted.includes(name))
    .filter((suite) => isAllowed(suite, lab));
  if (suites.length === 0) {
    console.error(`lab: no suite to run: ${wanted.join(", ")}`);
    return 1;
  }
  const abort = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => abort.abort());
  console.log(`Lab (${lab.kind}): ${suites.length} suites on ${processors} processors`);
  const begin = performance.now();
  const { outcomes, ends } = await runAll(lab, suites, abort.signal);
  printFailures(outcomes);
  printTable(outcomes);
  printNotes(outcomes);
  printTimes(secondsSince(begin), outcomes, ends);
  printFailingTests(outcomes);
  printSkippedTests(outcomes);
  printTotal(outcomes);
  const isGreen =
    outcomes.length === suites.length && outcomes.every((one) => one.failure === undefined);
  return isGreen ? 0 : 1;
}

process.exitCode = await main();
