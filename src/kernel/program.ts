/** Programs that have no stable kernel interface behind them: iptables, modprobe. What a run is given and how it ends. */

export interface ProgramCall {
  /** A name looked up in PATH; never a shell line. */
  readonly program: string;
  readonly arguments: readonly string[];
  /** Standard input; none is an empty one. */
  readonly input?: string;
  readonly timeoutMs: number;
  /** Takes standard output line by line, however long it is; an error of it rejects the run. */
  readonly onLine?: (line: string) => void;
}

/** How a program ended that ran to its end. */
export interface ProgramResult {
  readonly exitCode: number;
  /** Without the lines that `onLine` took. */
  readonly output: string;
  readonly errorOutput: string;
}

/** Runs a program and waits for its end, whatever its exit code. Rejects with a {@link ProgramError}. */
export type RunProgram = (call: ProgramCall) => Promise<ProgramResult>;

export type ProgramFailure =
  | "not-found"
  | "not-allowed"
  | "timed-out"
  | "killed"
  | "output-too-long"
  | "not-started";

/** Runs a program and reads its standard output by lines, the last one included if it has no end. */
export async function readLines(
  runProgram: RunProgram,
  call: ProgramCall,
  onLine: (line: string) => void,
): Promise<ProgramResult> {
  const result = await runProgram({ ...call, onLine });
  if (result.output !== "") for (const line of result.output.split("\n")) onLine(line);
  return result;
}

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

/** It overran its time. */
export function timedOut({ program, timeoutMs }: ProgramCall, cause?: unknown): ProgramError {
  const detail = `it did not finish within ${timeoutMs / 1000} s and was killed`;
  return new ProgramError(program, "timed-out", detail, cause);
}

/** It was ended by a signal: `SIGKILL`. */
export function killedBy(signal: string, { program }: ProgramCall, cause?: unknown): ProgramError {
  return new ProgramError(program, "killed", `it was killed by ${signal}`, cause);
}

/** It did not begin; `code` is the errno of execve(2): `ENOENT`. */
export function notStarted(code: string, { program }: ProgramCall, cause?: unknown): ProgramError {
  if (code === "ENOENT") {
    return new ProgramError(program, "not-found", "it is not installed (not in PATH)", cause);
  }
  if (code === "EACCES" || code === "EPERM") {
    return new ProgramError(program, "not-allowed", `${code} (not permitted to run it)`, cause);
  }
  if (code === "EMFILE" || code === "ENFILE") {
    const advice = "too many files are open: ulimit -n, sysctl fs.file-nr";
    return new ProgramError(program, "not-started", `${code} (${advice})`, cause);
  }
  return new ProgramError(program, "not-started", `it could not be started: ${code}`, cause);
}

/** Where system programs lie; a service's PATH often lacks the sbin folders. */
const systemFolders: readonly string[] = [
  "/usr/local/sbin",
  "/usr/sbin",
  "/sbin",
  "/usr/local/bin",
  "/usr/bin",
  "/bin",
];

/** Our PATH, then the system's. Only absolute ones: nothing is run from where we happen to work. */
export function programFolders(path: string = process.env["PATH"] ?? ""): readonly string[] {
  const own = path.split(":").filter((folder) => folder.startsWith("/"));
  return [...new Set([...own, ...systemFolders])];
}

/** Ours, but that messages are in English whatever the locale, since they are read. */
export function programEnvironment(): Readonly<Record<string, string>> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) environment[name] = value ?? "";
  return { ...environment, LC_ALL: "C", PATH: programFolders().join(":") };
}
