/** Defines the arguments and results of program runs, for facilities without a stable kernel interface. */

export interface ProgramCall {
  /** A name that is looked up in PATH; never a shell command line. */
  readonly program: string;
  readonly arguments: readonly string[];
  /** Standard input; empty if absent. */
  readonly input?: string;
  readonly timeoutMs: number;
  /** Receives standard output of any length, line by line. If it throws, the run rejects with that error. */
  readonly onLine?: (line: string) => void;
}

/** The result of a program that ran to its end. */
export interface ProgramResult {
  readonly exitCode: number;
  /** Standard output, unless `onLine` received it. */
  readonly output: string;
  readonly errorOutput: string;
}

/** Runs a program and waits until it exits, with any exit code. Rejects with a {@link ProgramError}. */
export type RunProgram = (call: ProgramCall) => Promise<ProgramResult>;

export type ProgramFailure =
  | "not-found"
  | "not-allowed"
  | "timed-out"
  | "killed"
  | "output-too-long"
  | "not-started";

/** Runs a program and reads its standard output line by line, including a last line without a newline. */
export async function readLines(
  runProgram: RunProgram,
  call: ProgramCall,
  onLine: (line: string) => void,
): Promise<ProgramResult> {
  const result = await runProgram({ ...call, onLine });
  if (result.output !== "") for (const line of result.output.split("\n")) onLine(line);
  return result;
}

/** A program that could not be started or did not exit by itself. */
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

export function isProgramMissing(error: unknown): boolean {
  return error instanceof ProgramError && error.failure === "not-found";
}

/** The error for a program that exceeded its timeout. */
export function timedOut({ program, timeoutMs }: ProgramCall, cause?: unknown): ProgramError {
  const detail = `it did not finish within ${timeoutMs / 1000} s and was killed`;
  return new ProgramError(program, "timed-out", detail, cause);
}

/** Returns the error for a program that a signal such as `SIGKILL` ended. */
export function killedBy(signal: string, { program }: ProgramCall, cause?: unknown): ProgramError {
  return new ProgramError(program, "killed", `it was killed by ${signal}`, cause);
}

/** The error for a program that could not be started; `code` is the errno name of execve(2), such as `ENOENT`. */
export function notStarted(code: string, { program }: ProgramCall, cause?: unknown): ProgramError {
  if (code === "ENOENT") {
    return new ProgramError(program, "not-found", "it is not installed (not in PATH)", cause);
  }
  if (code === "EACCES" || code === "EPERM") {
    return new ProgramError(program, "not-allowed", `${code} (not permitted to run it)`, cause);
  }
  if (code === "EMFILE" || code === "ENFILE") {
    const advice = "too many open files: check ulimit -n and sysctl fs.file-nr";
    return new ProgramError(program, "not-started", `${code} (${advice})`, cause);
  }
  return new ProgramError(program, "not-started", `it could not be started: ${code}`, cause);
}

/** Folders of system programs. A service's PATH often lacks the sbin folders. */
const systemFolders: readonly string[] = [
  "/usr/local/sbin",
  "/usr/sbin",
  "/sbin",
  "/usr/local/bin",
  "/usr/bin",
  "/bin",
];

/**
 * The absolute folders in PATH, then the system folders. Relative folders are omitted, so that no program runs from the
 * working directory.
 */
export function programFolders(path: string = process.env["PATH"] ?? ""): readonly string[] {
  const own = path.split(":").filter((folder) => folder.startsWith("/"));
  return [...new Set([...own, ...systemFolders])];
}

/** This process's environment with an English locale, because kube-ipvs parses program messages. */
export function programEnvironment(): Readonly<Record<string, string>> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) environment[name] = value ?? "";
  return { ...environment, LC_ALL: "C", PATH: programFolders().join(":") };
}
