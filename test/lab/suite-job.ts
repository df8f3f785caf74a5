/** Creates queue jobs from lab suites. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describeStatus } from "../queue/command-job.ts";
import type { Job, JobResult } from "../queue/job.ts";
import { parseTestSummary, type TestSummary } from "../queue/test-summary.ts";
import { skippedOnHost } from "../support/machine-wide.ts";
import { findLab, type Lab, runInLab } from "./lab.ts";
import type { LabResult } from "./lab-kernel.ts";
import { listSuites, type Suite } from "./suites.ts";

type UsableLab = Exclude<Lab, { kind: "none" }>;

/**
 * Returns jobs for all suites that this lab can run. Prints which suites are skipped and why. Throws if there is no
 * lab.
 */
export function labJobs(): readonly Job[] {
  const lab = findLab();
  if (lab.kind === "none") throw new Error(`lab: ${lab.missing}`);
  console.log(`Lab: ${lab.kind}`);
  const hasNft = process.env["LAB_KERNEL"] !== undefined;
  return listSuites(hasNft)
    .filter((suite) => isAllowed(suite, lab))
    .map((suite) => suiteJob(lab, suite));
}

function isAllowed({ name, machineWide }: Suite, lab: UsableLab): boolean {
  const reason = machineWide !== undefined && skippedOnHost(machineWide, { LAB_KIND: lab.kind });
  if (reason !== false) console.log(`${name}: skipped: ${reason}`);
  return reason === false;
}

function suiteJob(lab: UsableLab, suite: Suite): Job {
  const { name, waits, isNightly } = suite;
  return { name, waits, isNightly, run: (cpu, signal) => runSuite(lab, suite, cpu, signal) };
}

async function runSuite(
  lab: UsableLab,
  suite: Suite,
  cpu: number,
  signal: AbortSignal,
): Promise<JobResult> {
  const chunks: Buffer[] = [];
  const keep = (chunk: Buffer): void => void chunks.push(chunk);
  // Does not use `node --test`, which would start another Node.js process just to pass on the output.
  const command = [...withQuickNode(lab), "node", "--test-reporter=spec", suite.file];
  const streams = { stdout: keep, stderr: keep };
  const result = await runInLab(lab, command, { ...suite.options, cpu }, streams, signal);
  const output = Buffer.concat(chunks).toString();
  const summary = parseTestSummary(output);
  const cpuSeconds = result.kind === "exited" ? result.cpuSeconds : undefined;
  return { cpuSeconds, output, summary, failure: explainFailure(result, summary, suite) };
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
      return `FAILED: timed out after ${suite.options.timeoutSeconds} s`;
    case "stopped":
      return "stopped";
    case "died":
      return `FAILED: the lab ended before the suite did\n${result.console}`;
    case "exited":
      if (result.status !== 0) return `FAILED: ${describeStatus(result.status)}`;
      return summary === undefined || summary.passed === 0 ? "FAILED: no test ran" : undefined;
  }
}
