/** A job that is a command on this machine. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { allowedCpu } from "../lab/kernel-needs.ts";
import { childrenSeconds } from "../lab/lab-kernel.ts";
import type { Job } from "./job.ts";
import { parseTestSummary } from "./test-summary.ts";

const timeoutMs = 3_600_000;

export interface Command {
  readonly name: string;
  readonly argv: readonly string[];
  readonly waits?: true;
  readonly isNightly?: true;
  /** Whether the command prints no `node --test` summary, so that only its exit status is used. */
  readonly hasNoSummary?: true;
}

export function commandJob({ name, argv, waits, isNightly, hasNoSummary }: Command): Job {
  return {
    name,
    waits: waits === true,
    isNightly: isNightly === true,
    run: async (cpu, signal) => {
      const { end, output, cpuSeconds } = await runCommand(argv, cpu, signal);
      const summary = parseTestSummary(output);
      const hasRun = hasNoSummary === true || (summary?.passed ?? 0) > 0;
      const failure = end ?? (hasRun ? undefined : "FAILED: no test ran");
      return { cpuSeconds, output, summary, failure };
    },
  };
}

interface Ended {
  /** Why the command failed. Undefined with exit status 0. */
  readonly end: string | undefined;
  readonly output: string;
  readonly cpuSeconds: number | undefined;
}

/** Runs the command in its own process group, which is killed after the timeout or when the signal is aborted. */
function runCommand(argv: readonly string[], cpu: number, signal: AbortSignal): Promise<Ended> {
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-job-"));
  const times = join(folder, "times");
  const counted = ["-c", '"$@"; status=$?; times > "$0"; exit $status', times];
  const child = spawn("sh", [...counted, "taskset", "-c", String(allowedCpu(cpu)), ...argv], {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const chunks: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  let killed: string | undefined;
  const kill = (why: string): void => {
    killed ??= why;
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
  };
  const timer = setTimeout(() => kill(`FAILED: timed out after ${timeoutMs / 1000} s`), timeoutMs);
  const stop = (): void => kill("stopped");
  signal.addEventListener("abort", stop, { once: true });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      const cpuSeconds = existsSync(times)
        ? childrenSeconds(readFileSync(times, "utf8"))
        : undefined;
      rmSync(folder, { recursive: true });
      const status = code === 0 ? undefined : `FAILED: ${describeStatus(code ?? 0)}`;
      resolve({ end: killed ?? status, output: Buffer.concat(chunks).toString(), cpuSeconds });
    });
  });
}

/** Describes a status as a shell does: above 128 means a signal. */
export function describeStatus(status: number): string {
  const [signal] =
    Object.entries(constants.signals).find(([, number]) => number === status - 128) ?? [];
  return signal === undefined ? `exit status ${status}` : `ended by ${signal}`;
}
