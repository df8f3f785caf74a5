/**
 * Runs a command on a kernel with IPVS: a lab kernel or, on request, this machine's own kernel in new namespaces.
 * Usage: node test/lab/boot.ts [--cpu N] [--memory 2G] [--timeout SECONDS] [--without-ipvs] -- COMMAND ARGUMENT…
 * Standard output, standard error and exit status are those of the command. Exit status 124: timeout. 125: the lab
 * could not run the command. 130: stopped by a signal.
 */
import { parseArgs } from "node:util";
import { findLab, runInLab } from "./lab.ts";
import type { LabOptions, LabResult } from "./lab-kernel.ts";

const TIMED_OUT_STATUS = 124;
const LAB_FAILED_STATUS = 125;
const STOPPED_STATUS = 130;

function parseCommandLine(argv: readonly string[]): { options: LabOptions; command: string[] } {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      cpu: { type: "string", default: "0" },
      memory: { type: "string", default: "2G" },
      timeout: { type: "string", default: "600" },
      "without-ipvs": { type: "boolean", default: false },
    },
  });
  const options: LabOptions = {
    cpu: Number(values.cpu),
    memory: values.memory,
    timeoutSeconds: Number(values.timeout),
    ipvs: values["without-ipvs"] ? "absent" : "present",
  };
  return { options, command: positionals };
}

function exitStatus(result: LabResult, options: LabOptions): number {
  switch (result.kind) {
    case "exited":
      return result.status;
    case "timed-out":
      console.error(`lab: killed after ${options.timeoutSeconds} s`);
      return TIMED_OUT_STATUS;
    case "stopped":
      return STOPPED_STATUS;
    case "died":
      console.error(`lab: the lab kernel exited before the command did\n${result.console}`);
      return LAB_FAILED_STATUS;
  }
}

async function main(): Promise<number> {
  const { options, command } = parseCommandLine(process.argv.slice(2));
  if (command.length === 0) {
    console.error("lab: no command given; usage: node test/lab/boot.ts [--cpu N] -- COMMAND …");
    return LAB_FAILED_STATUS;
  }
  const lab = findLab();
  if (lab.kind === "none") {
    console.error(`lab: ${lab.missing}`);
    return LAB_FAILED_STATUS;
  }
  const abort = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => abort.abort());
  const output = {
    stdout: (chunk: Buffer): void => void process.stdout.write(chunk),
    stderr: (chunk: Buffer): void => void process.stderr.write(chunk),
  };
  return exitStatus(await runInLab(lab, command, options, output, abort.signal), options);
}

process.exitCode = await main();
