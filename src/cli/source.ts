/** Answers questions about this node from its daemon, or from a dry run of the first sync. */
import { otherVersion, readAnswer } from "../answer/answer.ts";
import type { Answers } from "../answer/answers.ts";
import { type Asked, askDaemon, type Question } from "../daemon/operator/ask-daemon.ts";

export interface Source {
  /** Asks the daemon, which may not be running. Rejects if the answer has a different kind. */
  readonly askDaemon: <Kind extends keyof Answers>(
    question: Question<Kind>,
  ) => Promise<Asked<Kind>>;
  /** Asks the daemon. Rejects if it does not answer. */
  readonly askRunning: <Kind extends keyof Answers>(
    question: Question<Kind>,
  ) => Promise<Answers[Kind]>;
  /** Returns what a daemon would answer after starting. Rejects if the answer cannot be determined. */
  readonly askFirstSync: <Kind extends keyof Answers>(
    question: Question<Kind>,
  ) => Promise<Answers[Kind]>;
  /**
   * Asks the daemon or, if none is running, simulates the first sync and reports this once on stderr. `instead`
   * describes the simulation: `planning as the daemon would at startup`. Rejects if there is no answer.
   */
  readonly ask: <Kind extends keyof Answers>(
    question: Question<Kind>,
    instead: string,
  ) => Promise<Answers[Kind]>;
  /**
   * The reason to print for an error. A TypeError after the daemon has answered means that the answer lacks fields,
   * because the daemon has a different version.
   */
  readonly reasonFor: (error: unknown) => unknown;
}

export function sourceOn(
  path: string,
  firstSync: (target: string) => Promise<string>,
  writeErr: (text: string) => void,
): Source {
  let isReported = false;
  let hasAnswered = false;
  const source: Source = {
    askDaemon: async (question) => {
      const asked = await askDaemon(path, question);
      hasAnswered ||= asked.kind === "answer";
      return asked;
    },
    askRunning: async (question) => {
      const asked = await source.askDaemon(question);
      if (asked.kind === "answer") return asked.answer;
      throw new Error(failureText(path, asked.reason));
    },
    askFirstSync: async ({ kind, target }) => readAnswer(kind, await firstSync(target)),
    ask: async (question, instead) => {
      const asked = await source.askDaemon(question);
      if (asked.kind === "answer") return asked.answer;
      if (asked.kind === "failed") throw new Error(failureText(path, asked.reason));
      if (!isReported) {
        writeErr(
          `No kube-ipvs daemon on this node answers on ${path} (${asked.reason}); ${instead}\n`,
        );
      }
      isReported = true;
      return await source.askFirstSync(question);
    },
    reasonFor: (error) => (hasAnswered && error instanceof TypeError ? otherVersion(error) : error),
  };
  return source;
}

export function failureText(path: string, reason: string): string {
  return `Cannot query kube-ipvs on ${path}: ${reason}`;
}
