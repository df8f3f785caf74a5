/** Runs all jobs, or those named on the command line, and prints the report. */
import { parseArgs } from "node:util";
import { isLong } from "../support/seeds.ts";
import { readDurations, updatedDurations, writeDurations } from "./durations.ts";
import type { Job } from "./job.ts";
import { processors, runJobs } from "./queue.ts";
import { printReport } from "./report.ts";

/** All jobs in the long form. Otherwise, prints which jobs are left to `make nightly`. */
function dailyJobs(all: readonly Job[]): readonly Job[] {
  const left = all.filter(({ isNightly }) => isNightly && !isLong);
  if (left.length > 0)
    console.log(`Left to make nightly: ${left.map(({ name }) => name).join(", ")}`);
  return all.filter((job) => !left.includes(job));
}

/** Returns the exit status. SIGINT, SIGTERM and SIGHUP stop all jobs. */
export async function runNamed(listJobs: () => readonly Job[]): Promise<number> {
  const { values, positionals: names } = parseArgs({
    options: { record: { type: "boolean", default: false } },
    allowPositionals: true,
  });
  let all: readonly Job[];
  try {
    all = listJobs();
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    return 1;
  }
  const jobs = names.length === 0 ? dailyJobs(all) : all.filter(({ name }) => names.includes(name));
  if (jobs.length === 0) {
    console.error(`No such suite: ${names.join(", ")}`);
    return 1;
  }
  const abort = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => abort.abort());
  console.log(`${jobs.length} suites on ${processors} processors`);
  const durations = readDurations();
  const run = await runJobs(jobs, durations, abort.signal);
  if (values.record) writeDurations(updatedDurations(durations, run.outcomes));
  return printReport(run, jobs.length);
}
