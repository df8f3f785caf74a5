/** A test suite in the queue: of the lab, of units, of native-shim and so on. */
import type { TestSummary } from "./test-summary.ts";

export interface Job {
  readonly name: string;
  /** It waits more than it works, so it shares a processor with a job that works. */
  readonly waits: boolean;
  /** Runs on one processor. An aborted signal ends it at once. */
  run(cpu: number, signal: AbortSignal): Promise<JobResult>;
}

export interface JobResult {
  /** Undefined if the job did not run to its end, or if nobody counted. */
  readonly cpuSeconds: number | undefined;
  readonly output: string;
  readonly summary: TestSummary | undefined;
  /** Why the job is not green. */
  readonly failure: string | undefined;
}

export interface Outcome extends JobResult {
  readonly name: string;
  readonly seconds: number;
}
