/**
 * Runs all tests in parallel, in the lab and outside, and prints a table of their durations:
 *
 *     node test/run.ts [--record] [NAME…]
 *
 * `--record` writes each duration to queue/durations.json.
 */
import { labJobs } from "./lab/suite-job.ts";
import { commandJob } from "./queue/command-job.ts";
import { commands } from "./queue/commands.ts";
import { runNamed } from "./queue/run-jobs.ts";

process.exitCode = await runNamed(() => [...commands().map(commandJob), ...labJobs()]);
