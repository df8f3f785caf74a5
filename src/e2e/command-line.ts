/** Runs the test with the given arguments. */
import { writeSync } from "node:fs";
import { openConnection, openCredentials } from "../api/cluster/open-connection.ts";
import { systemClock } from "../base/clock.ts";
import { version } from "../base/version.ts";
import { clusterApi } from "./cluster/cluster-api.ts";
import { ExecShell } from "./cluster/exec-shell.ts";
import { requireFreshRights } from "./expiry.ts";
import { type E2eOptions, helpText, readOptions } from "./options.ts";
import type { NamedOutcome } from "./outcome.ts";
import { hasFailed, reportText } from "./report.ts";
import { runChecks } from "./run.ts";

/** Exit codes: no check failed, a check failed, or the test could not run. */
const exitCodes = { passed: 0, failed: 1, notRun: 2 } as const;

/** Runs the test and resolves with the exit code. Rejects if the test cannot run or is interrupted. */
export async function run(args: readonly string[]): Promise<number> {
  const options = readOptions(args, process.env);
  if (options === undefined) {
    writeSync(1, helpText);
    return exitCodes.passed;
  }
  const outcomes = await test(options);
  if (!options.onlyConnects) writeSync(1, reportText(outcomes, options.format));
  return hasFailed(outcomes) ? exitCodes.failed : exitCodes.passed;
}

async function test(options: E2eOptions): Promise<readonly NamedOutcome[]> {
  const dependencies = { clock: systemClock, environment: process.env };
  const userAgent = `kube-ipvs-e2e/${version} (linux/${process.arch})`;
  const access = { kubeconfig: options.kubeconfig, master: "", userAgent };
  const api = clusterApi(await openConnection(dependencies, access));
  if (options.onlyConnects) {
    await api.core.listNode();
    return [];
  }
  await requireFreshRights(api.rbac, systemClock);
  return await runChecks({
    clock: systemClock,
    api,
    shell: new ExecShell(await openCredentials(dependencies, access)),
    options,
    progress: (line) => void process.stderr.write(`${line}\n`),
    signal: signalOf(["SIGINT", "SIGTERM"]),
  });
}

/** Aborts at the first signal. A second signal ends the program immediately. */
function signalOf(names: readonly NodeJS.Signals[]): AbortSignal {
  const abort = new AbortController();
  for (const name of names) {
    process.on(name, () => {
      if (abort.signal.aborted) process.exit(exitCodes.notRun);
      process.stderr.write(
        `${name}: removing all objects of the test; a second signal exits immediately\n`,
      );
      abort.abort(new Error(`Interrupted by ${name}`));
    });
  }
  return abort.signal;
}
