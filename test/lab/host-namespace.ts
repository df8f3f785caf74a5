/** The lab on a machine whose own kernel has IPVS: a fresh network and mount namespace. */
import { spawn } from "node:child_process";
import type { GuestCommand, LabOptions, LabResult, Output } from "./lab-kernel.ts";

/** A private /run holds the named namespaces and the xtables lock; all of it ends with the command. */
const SET_UP = 'mount -t tmpfs tmpfs /run && mkdir -p /run/lock && ip link set lo up && exec "$@"';

export function runInHostNamespace(
  command: GuestCommand,
  options: LabOptions,
  output: Output,
  signal?: AbortSignal,
): Promise<LabResult> {
  // A process namespace of its own, so that nothing of the command survives it.
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
  const child = spawn("unshare", [...isolate, "sh", "-c", SET_UP, "sh", ...command.argv], {
    cwd: command.workingDirectory,
    env: command.environment,
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
