/** A program and nothing else: arguments and bytes in, bytes and numbers out. No retry, no policy, no log. */
export interface ProgramRequest {
  /** The program, a path or a name without a slash, and its arguments; execve(2). No shell reads them. */
  readonly arguments: readonly [string, ...string[]];
  /** All of it: nothing is inherited. */
  readonly environment: Readonly<Record<string, string>>;
  /** Where a name is looked for, in this order; absolute. */
  readonly folders: readonly string[];
  /** Standard input. */
  readonly input: Uint8Array;
  /** From now, 0 to 2^31 - 1; then SIGTERM, and a second later SIGKILL. */
  readonly timeoutMs: number;
  /** Of standard output and of error output, each; at most 2^28. */
  readonly maxOutputBytes: number;
}

export interface ProgramEnd {
  /**
   * 0: it ended by itself or by a signal. Else, with operation "start", why it did not begin: ENOENT (in
   * no folder), EACCES, ENOEXEC (a script without an interpreter), EMFILE …; with operation "run", why it
   * was stopped: ETIMEDOUT, EMSGSIZE (more output than asked for), ENOMEM; or ECHILD: nobody knows how it
   * ended, because the process ignores SIGCHLD.
   */
  readonly errno: number;
  readonly operation: "" | "start" | "run";
  /** 0 to 255, and 0 when there is none. */
  readonly exitCode: number;
  /** The number of the signal that ended it, or 0; signal(7). */
  readonly signal: number;
  readonly output: Uint8Array;
  readonly errorOutput: Uint8Array;
}
