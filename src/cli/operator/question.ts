import type { Clock } from "../../base/clock.ts";
import type { Config } from "../../config/config.ts";
import { askDaemon } from "../../daemon/operator/ask-daemon.ts";

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

/** Answers what a daemon would, where none runs: a path and query of its operator socket. */
export type WithoutDaemon = (target: string) => Promise<string>;

/**
 * Who answers this question: the daemon, and where none runs a start that changes nothing, which is said once. `instead`:
 * `planning as a start would`. Rejects where there is no answer.
 */
export function answererOf(
  { config: { operatorSocketPath: path } }: Question,
  { writeErr }: Pick<QuestionWorld, "writeErr">,
  withoutDaemon: WithoutDaemon,
  instead: string,
): (target: string) => Promise<string> {
  let isReported = false;
  return async (target) => {
    const reply = await askDaemon(path, target);
    if (reply.kind === "answer") return reply.text;
    if (reply.kind === "failed") {
      throw new Error(`Cannot ask kube-ipvs on ${path}: ${reply.reason}`);
    }
    if (!isReported) {
      writeErr(`No kube-ipvs on this node answers on ${path} (${reply.reason}): ${instead}\n`);
    }
    isReported = true;
    return await withoutDaemon(target);
  };
}
