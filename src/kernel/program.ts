/** Running the few programs that have no stable kernel interface behind them: iptables, modprobe. */
import { ExecaError, execa } from "execa";

export interface ProgramCall {
  /** A name looked up in PATH; never a shell line. */
  readonly program: string;
  readonly arguments: readonly string[];
  /** Standard input; none is an empty one. */
  readonly input?: string;
  readonly timeoutMs: number;
}

/** How a program ended that ran to its end. */
export interface ProgramResult {
  readonly exitCode: number;
  readonly output: string;
  readonly errorOutput: string;
}

/** Runs a program and waits for its end, whatever its exit code. Rejects with a {@link ProgramError}. */
export type RunProgram = (call: ProgramCall) => Promise<ProgramResult>;

export type ProgramFailure = "not-found" | "not-allowed" | "timed-out" | "killed" | "not-started";

/** A program that could not be started, or did not come to its end by itself. */
export class ProgramError extends Error {
  readonly program: string;
  readonly failure: ProgramFailure;

  constructor(program: string, failure: ProgramFailure, detail: string, cause?: unknown) {
    super(`Cannot run ${program}: ${detail}`, { cause });
    this.name = "ProgramError";
    this.program = program;
    this.failure = failure;
  }
}

/** Where system programs lie; a service's PATH often lacks the sbin folders. */
const systemFolders = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin";

/** Output beyond this is refused; 50,000 saved rules take about 8 MB. */
const largestOutputBytes = 256 * 1024 * 1024;

/** How long after SIGTERM a program that overran its time is killed. */
const killDelayMs = 1_000;

/**
 * The machine's own programs, without a shell. The child is in the network namespace of the thread that
 * calls. Messages are in English whatever the locale, since they are read.
 */
export const runProgram: RunProgram = async (call) => {
  const path = process.env["PATH"];
  const result = await execa(call.program, call.arguments, {
    env: { LC_ALL: "C", PATH: path ? `${path}:${systemFolders}` : systemFolders },
    input: call.input ?? "",
    timeout: call.timeoutMs,
    forceKillAfterDelay: killDelayMs,
    maxBuffer: largestOutputBytes,
    stripFinalNewline: false,
    reject: false,
  });
  if (result.exitCode === undefined || result.timedOut) throw programError(call, result);
  return { exitCode: result.exitCode, output: result.stdout, errorOutput: result.stderr };
};

interface UnfinishedRun {
  readonly timedOut: boolean;
  readonly signal?: string | undefined;
  readonly code?: string | undefined;
  readonly cause?: unknown;
}

function programError(call: ProgramCall, run: UnfinishedRun): ProgramError {
  const { program, timeoutMs } = call;
  const cause = run instanceof ExecaError ? run : run.cause;
  if (run.timedOut) {
    const detail = `it did not end within ${timeoutMs / 1000} s and was stopped`;
    return new ProgramError(program, "timed-out", detail, cause);
  }
  if (run.code === "ENOENT") {
    return new ProgramError(program, "not-found", "it is not installed (not in PATH)", cause);
  }
  if (run.code === "EACCES" || run.code === "EPERM") {
    return new ProgramError(program, "not-allowed", `${run.code} (no right to run it)`, cause);
  }
  if (run.signal !== undefined) {
    return new ProgramError(program, "killed", `it was ended by ${run.signal}`, cause);
  }
  return new ProgramError(program, "not-started", run.code ?? "it could not be started", cause);
}
