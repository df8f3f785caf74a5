/** Runs the lab suites in parallel and prints a table of their durations: node test/lab/run-suites.ts [NAME…] */
import { runNamed } from "../queue/run-jobs.ts";
import { labJobs } from "./suite-job.ts";

process.exitCode = await runNamed(labJobs);
