/** What can be asked of the agent in the lab. */

/** Of a process with all its descendants. */
export interface ProcessFigures {
  /** User and system time, in ticks of 10 ms; of those that ended, too. */
  readonly cpuMs: number;
  /** Of that, what the process itself took, without any descendant. */
  readonly ownCpuMs: number;
  /** VmRSS. */
  readonly residentKb: number;
  /** VmHWM: the most that it ever was. */
  readonly peakKb: number;
  /** RssAnon: without the pages of files, which the kernel may drop at any time. */
  readonly anonymousKb: number;
  readonly processCount: number;
}

export interface ExecResult {
  /** Null: a signal ended it. */
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly elapsedMs: number;
}

/** By name: body of the question, body of the answer. */
export interface AgentRequests {
  /** Runs a command to its end. */
  readonly exec: {
    readonly body: {
      readonly argv: readonly string[];
      /** A file as standard input; absent: none. */
      readonly stdinPath?: string;
      /** Network namespace, by name; absent: that of the daemon. */
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
  /** Both streams so far. */
  readonly output: { readonly body: { readonly pid: number }; readonly answer: string };
  readonly figures: { readonly body: { readonly pid: number }; readonly answer: ProcessFigures };
  /** Processes and threads that the kernel has made since boot. */
  readonly forkCount: { readonly body: object; readonly answer: number };
  readonly end: {
    readonly body: { readonly pid: number; readonly signal: NodeJS.Signals };
    readonly answer: { readonly status: number | null };
  };
  readonly fetch: { readonly body: { readonly url: string }; readonly answer: string };
  readonly read: { readonly body: { readonly path: string }; readonly answer: string };
  readonly powerOff: { readonly body: object; readonly answer: object };
}
