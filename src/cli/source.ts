/** Who answers the operator's questions: the daemon of this node, else a first sync that changes nothing. */
import { readAnswer } from "../answer/answer.ts";
import type { Answers } from "../answer/answers.ts";
import { askDaemon } from "../daemon/operator/ask-daemon.ts";

/** A path and query of the operator socket, and what it is answered with. */
export interface Question<Kind extends keyof Answers> {
  readonly kind: Kind;
  readonly target: string;
}

/** An answer, or why there is none. */
export type Asked<Kind extends keyof Answers> =
  | { readonly kind: "answer"; readonly answer: Answers[Kind] }
  /** `failed`: a daemon may run. `isDenied`: this process may not ask. */
  | {
      readonly kind: "absent" | "failed";
      readonly reason: string;
      readonly isDenied?: true;
    };

export interface Source {
  /** Of the daemon. Rejects if it is a daemon of another version. */
  readonly askDaemon: <Kind extends keyof Answers>(
    question: Question<Kind>,
  ) => Promise<Asked<Kind>>;
  /** What a daemon would answer once started. Rejects if that is unknown. */
  readonly askFirstSync: <Kind extends keyof Answers>(
    question: Question<Kind>,
  ) => Promise<Answers[Kind]>;
  /**
   * Of the daemon, else of a first sync, which is said once: `instead` is `planning as a start would`. Rejects if there is no
   * answer.
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
    askFirstSync: async ({ kind, target }) => readAnswer(kind, await firstSync(target)),
    ask: async (question, instead) => {
      const asked = await source.askDaemon(question);
      if (asked.kind === "answer") return asked.answer;
      if (asked.kind === "failed") throw new Error(failureText(path, asked.reason));
      if (!isReported) {
        writeErr(`No kube-ipvs on this node answers on ${path} (${asked.reason}): ${instead}\n`);
      }
      isReported = true;
      return await source.askFirstSync(question);
    },
  };
  return source;
}

export function failureText(path: string, reason: string): string {
  return `Cannot ask kube-ipvs on ${path}: ${reason}`;
}
