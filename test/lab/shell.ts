/**
 * A shell on a kernel with IPVS, on this terminal: `make shell`. The exit status is that of its last command. Commands
 * in the shell do not change this machine.
 */
import { spawnSync } from "node:child_process";
import { findLab, runInLab } from "./lab.ts";

const longestSeconds = 86_400;
const labFailedStatus = 125;
const script = `${import.meta.dirname}/shell.sh`;

/** The terminal size if standard input is not a terminal, as in a test. */
const usualSize = { rows: 24, columns: 80 };

async function main(): Promise<number> {
  const lab = findLab();
  if (lab.kind === "none") {
    console.error(`lab: ${lab.missing}`);
    return labFailedStatus;
  }
  const { rows, columns } = process.stdout.isTTY ? process.stdout : usualSize;
  const settings = terminalSettings();
  console.error("Booting a kernel with IPVS, which takes about 15 s. Type exit to leave");
  const result = await runInLab(
    lab,
    ["sh", script],
    {
      cpu: 0,
      memory: "2G",
      timeoutSeconds: longestSeconds,
      ipvs: "present",
      terminal: { rows, columns },
    },
    { stdout: () => {}, stderr: (chunk) => void process.stderr.write(chunk) },
  );
  if (settings !== undefined)
    spawnSync("stty", [settings], { stdio: ["inherit", "ignore", "ignore"] });
  if (result.kind === "exited") return result.status;
  console.error(`lab: ${result.kind === "died" ? result.console : result.kind}`);
  return labFailedStatus;
}

/** The lab kernel sets the terminal to raw mode and may end without resetting it. */
function terminalSettings(): string | undefined {
  const { status, stdout } = spawnSync("stty", ["-g"], { stdio: ["inherit", "pipe", "ignore"] });
  return status === 0 ? stdout.toString().trim() : undefined;
}

process.exitCode = await main();
