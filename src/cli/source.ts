/** Answers questions about this node from its daemon, or from a dry run of the first sync. */
import { readAnswer } from "../answer/answer.ts";
import type { Answers } from "../answer/answers.ts";
import { askDaemon } from "../daemon/operator/ask-daemon.ts";

/** The path and query of a request to the operator socket, and the kind of its answer. */
export interface Question<Kind extends keyof Answers> {
  readonly kind: Kind;
  readonly target: string;
}

/** An answer, or the reason why there is none. */
export type Asked<Kind extends keyof Answers> =
  | { readonly kind: "answer"; readonly answer: Answers[Kind] }
  /** With `absent`, no daemon listens; with `failed`, a daemon may run. `isDenied`: this process lacks permission. */
  | {
      readonly kind: "absent" | "failed";
      readonly reason: string;
      readonly isDenied?: true;
    };

export interface Source {
  /** Asks the daemon. Rejects if the daemon has a different version. */
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
}

export function sourceOn(
  path: string,
  firstSync: (target: string) => Promise<string>,
  writeErr: (text: string) => void,
): Source {
  let isReported = false;
  const source: Source = {
    askDaemon: async ({ kind, target }) => {
      const reply = await askDaemon(path, target);
      if (reply.kind !== "answer") return reply;
      return { kind: "answer", answer: readAnswer(kind, reply.text) };
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
          `No kube-ipvs daemon on this node answers on ${path} (${asked.reason}): ${instead}\n`,
        );
      }
      isReported = true;
      return await source.askFirstSync(question);
    },
  };
  return source;
}

export function failureText(path: string, reason: string): string {
  return `Cannot query kube-ipvs on ${path}: ${reason}`;
}
