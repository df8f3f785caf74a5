/**
 * Runs the suites of the lab side by side and prints a table of their times:
 *
 *     node test/lab/run-suites.ts [NAME…]
 */
import { runNamed } from "../queue/run-jobs.ts";
import { labJobs } from "./suite-job.ts";

process.exitCode = await runNamed(labJobs);
