/** The programs that a run starts, each with a log. They are stopped when the run ends for any reason. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";

const stopMs = 10_000;

export interface ProgramOptions {
  readonly log: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly signal?: NodeJS.Signals;
}

export interface StoppableProgram {
  stop(): Promise<void>;
}

interface Started {
  readonly name: string;
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  readonly signal: NodeJS.Signals;
}

export class Programs {
  readonly #started: Started[] = [];
  readonly #onUnexpectedEnd: (error: Error) => void;
  #isStopping = false;

  constructor(onUnexpectedEnd: (error: Error) => void) {
    this.#onUnexpectedEnd = onUnexpectedEnd;
  }

  /**
   * Starts a program in its own session, which Ctrl-C does not reach. The kernel kills it if this process is killed.
   * The caller can stop it earlier with the returned object.
   */
  start(name: string, argv: readonly string[], options: ProgramOptions): StoppableProgram {
    const { log, environment = {}, signal = "SIGTERM" } = options;
    const output = openSync(log, "a");
    const child = spawn("setpriv", ["--pdeathsig", "KILL", ...argv], {
      detached: true,
      stdio: ["ignore", output, output],
      env: { ...process.env, ...environment },
    });
    closeSync(output);
    const { promise, resolve } = Promise.withResolvers<void>();
    let isExpected = false;
    child.once("error", this.#onUnexpectedEnd);
    child.once("exit", (status, by) => {
      resolve();
      if (!this.#isStopping && !isExpected)
        this.#onUnexpectedEnd(new Error(`${name} exited with ${by ?? status}: see ${log}`));
    });
    this.#started.push({ name, child, ended: promise, signal });
    return {
      stop: () => {
        isExpected = true;
        child.kill(signal);
        return promise;
      },
    };
  }

  /** Stops the programs in reverse order. Kills programs that ignore their signal. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const { child, ended, signal } of this.#started.toReversed()) {
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) continue;
      child.kill(signal);
      const timer = setTimeout(() => child.kill("SIGKILL"), stopMs);
      await ended;
      clearTimeout(timer);
    }
  }
}
