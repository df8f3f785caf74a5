/** Requests to the agent in the lab. */

/** Resource usage of a process and all its descendants. */
export interface ProcessFigures {
  /** User and system time in 10 ms ticks, including exited processes. */
  readonly cpuMs: number;
  /** The part of `cpuMs` that the process itself used, without descendants. */
  readonly ownCpuMs: number;
  /** VmRSS. */
  readonly residentKb: number;
  /** VmHWM: the maximum so far. */
  readonly peakKb: number;
  /** RssAnon: memory without file pages, which the kernel can drop at any time. */
  readonly anonymousKb: number;
  readonly processCount: number;
}

export interface ExecResult {
  /** Null if a signal killed the process. */
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly elapsedMs: number;
}

/** Requests by name, with the types of their bodies and answers. */
export interface AgentRequests {
  /** Runs a command and waits for it to exit. */
  readonly exec: {
    readonly body: {
      readonly argv: readonly string[];
      /** A file for standard input. No input if absent. */
      readonly stdinPath?: string;
      /** Name of a network namespace. Defaults to the daemon's. */
      readonly namespace?: string;
    };
    readonly answer: ExecResult;
  };
  readonly start: {
    readonly body: {
      readonly argv: readonly string[];
      readonly environment?: Readonly<Record<string, string>>;
    };
    readonly answer: { readonly pid: number };
  };
  readonly waitForOutput: {
    readonly body: { readonly pid: number; readonly text: string; readonly timeoutMs: number };
    readonly answer: { readonly isThere: boolean };
  };
  /** Output so far on both streams. */
  readonly output: { readonly body: { readonly pid: number }; readonly answer: string };
  readonly figures: { readonly body: { readonly pid: number }; readonly answer: ProcessFigures };
  /** Number of processes and threads that the kernel has created since boot. */
  readonly forkCount: { readonly body: object; readonly answer: number };
  readonly end: {
    readonly body: { readonly pid: number; readonly signal: NodeJS.Signals };
    readonly answer: { readonly status: number | null };
  };
  readonly fetch: { readonly body: { readonly url: string }; readonly answer: string };
  readonly read: { readonly body: { readonly path: string }; readonly answer: string };
  readonly powerOff: { readonly body: object; readonly answer: object };
}
