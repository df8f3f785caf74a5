/** The lab on this machine's own kernel, which must have IPVS, in new namespaces: see host.sh. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { GuestCommand, LabOptions, LabResult, Output } from "./lab-kernel.ts";

const SET_UP: string = join(import.meta.dirname, "host.sh");

export function runInHostNamespace(
  command: GuestCommand,
  options: LabOptions,
  output: Output,
  signal?: AbortSignal,
): Promise<LabResult> {
  // A separate process namespace, so that none of the command's processes survive it.
  const isolate = [
    "--net",
    "--mount",
    "--propagation",
    "private",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
  ];
  const child = spawn("unshare", [...isolate, "sh", SET_UP, ...command.argv], {
    cwd: command.workingDirectory,
    env: { ...command.environment, LAB_IPTABLES: options.iptables ?? "legacy" },
    stdio: options.terminal === undefined ? ["ignore", "pipe", "pipe"] : "inherit",
  });
  child.stdout?.on("data", (chunk: Buffer) => output.stdout(chunk));
  child.stderr?.on("data", (chunk: Buffer) => output.stderr(chunk));
  return new Promise((resolve, reject) => {
    let timedOut = false;
    const kill = (): void => void child.kill("SIGKILL");
    const timer = setTimeout(() => {
      timedOut = true;
      kill();
    }, options.timeoutSeconds * 1000);
    signal?.addEventListener("abort", kill, { once: true });
    child.once("error", reject);
    child.once("close", (status) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", kill);
      if (timedOut) resolve({ kind: "timed-out" });
      else if (signal?.aborted === true) resolve({ kind: "stopped" });
      else if (status === null) resolve({ kind: "died", console: "the command was killed" });
      else resolve({ kind: "exited", status });
    });
  });
}
