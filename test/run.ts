/**
 * Runs all tests in parallel, those of the lab and all others, and prints a table of their durations:
 *
 *     node test/run.ts [--record] [NAME…]
 *
 * `--record` writes the duration of each into queue/durations.json.
 */
import { labJobs } from "./lab/suite-job.ts";
import { commandJob } from "./queue/command-job.ts";
import { commands } from "./queue/commands.ts";
import { runNamed } from "./queue/run-jobs.ts";

process.exitCode = await runNamed(() => [...commands().map(commandJob), ...labJobs()]);
