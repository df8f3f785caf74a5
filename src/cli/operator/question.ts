import type { Clock } from "../../base/clock.ts";
import type { Config } from "../../config/config.ts";

/** What a command that asks the daemon needs of the process. */
export interface QuestionWorld {
  readonly clock: Clock;
  readonly writeOut: (text: string) => void;
  readonly writeErr: (text: string) => void;
  /** Columns of the terminal that stdout is; undefined: it is none. */
  readonly columns?: () => number | undefined;
}

/** A command that asks the daemon, as the command line gives it. */
export interface Question {
  readonly config: Pick<Config, "operatorSocketPath" | "lockName">;
  /** Each with its default where it was not given. */
  readonly options: ReadonlyMap<string, string>;
  readonly arguments: readonly string[];
}

/** OK, something is wrong, no daemon runs. */
export const exitCodes = { ok: 0, degraded: 1, notRunning: 2 } as const;
