/**
 * A shell on a kernel with IPVS: `make shell`. If standard input is not a terminal, the shell runs the commands that it
 * reads there. The exit status is that of its last command, or 130 if a signal stopped the shell. Commands in the shell
 * do not change this machine.
 */
import { spawnSync } from "node:child_process";
import { text } from "node:stream/consumers";
import { findLab, runInLab } from "./lab.ts";

const longestSeconds = 86_400;
const labFailedStatus = 125;
const stoppedStatus = 130;
const script = `${import.meta.dirname}/shell.sh`;

/** The terminal size if standard output is not a terminal. */
const usualSize = { rows: 24, columns: 80 };

async function main(): Promise<number> {
  const lab = findLab();
  if (lab.kind === "none") {
    console.error(`lab: ${lab.missing}`);
    return labFailedStatus;
  }
  const commands = process.stdin.isTTY ? undefined : await readCommands();
  const { rows, columns } = process.stdout.isTTY ? process.stdout : usualSize;
  const settings = terminalSettings();
  console.error("Booting a kernel with IPVS, which takes about 15 s. Type exit to leave");
  const abort = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => abort.abort());
  const result = await runInLab(
    lab,
    ["sh", script, ...(commands === undefined ? [] : ["-c", commands])],
    {
      cpu: 0,
      memory: "2G",
      timeoutSeconds: longestSeconds,
      ipvs: "present",
      ...(commands === undefined ? { terminal: { rows, columns } } : {}),
    },
    {
      stdout: (chunk) => void process.stdout.write(chunk),
      stderr: (chunk) => void process.stderr.write(chunk),
    },
    abort.signal,
  );
  if (settings !== undefined)
    spawnSync("stty", [settings], { stdio: ["inherit", "ignore", "ignore"] });
  if (result.kind === "exited") return result.status;
  if (result.kind === "stopped") return stoppedStatus;
  console.error(`lab: ${result.kind === "died" ? result.console : result.kind}`);
  return labFailedStatus;
}

/** The lab kernel cannot use a file as its terminal, so the shell gets the commands as an argument. */
async function readCommands(): Promise<string> {
  console.error("Reading commands from standard input, because it is not a terminal");
  return await text(process.stdin);
}

/** The lab kernel sets the terminal to raw mode and may end without resetting it. */
function terminalSettings(): string | undefined {
  const { status, stdout } = spawnSync("stty", ["-g"], { stdio: ["inherit", "pipe", "ignore"] });
  return status === 0 ? stdout.toString().trim() : undefined;
}

process.exitCode = await main();
