/** A test suite in the queue, for example a lab suite or the unit tests. */
import type { TestSummary } from "./test-summary.ts";

export interface Job {
  readonly name: string;
  /** Whether the job mostly waits, so that it shares a processor with another job. */
  readonly waits: boolean;
  /** Whether a run without names leaves the job out, unless it is the long form. */
  readonly isNightly: boolean;
  /** Runs on one processor. Aborting the signal stops it immediately. */
  run(cpu: number, signal: AbortSignal): Promise<JobResult>;
}

export interface JobResult {
  /** Undefined if the job did not finish, or if its CPU time is unknown. */
  readonly cpuSeconds: number | undefined;
  readonly output: string;
  readonly summary: TestSummary | undefined;
  /** Why the job failed. */
  readonly failure: string | undefined;
}

export interface Outcome extends JobResult {
  readonly name: string;
  readonly seconds: number;
}
