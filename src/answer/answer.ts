/** Creates and parses answers, and defines the exit codes of commands that print them. Pure. */
import { errorText } from "../base/error-text.ts";
import { isRecord } from "../base/is-record.ts";
import { parseJson } from "../base/parse-json.ts";
import { version } from "../base/version.ts";
import { type Answers, apiVersion, type ListOf } from "./answers.ts";
import type { Explanation } from "./explanation.ts";

export type ExplanationList = ListOf<"ExplanationList", Explanation>;

export function listOf<Kind extends string, Row>(
  kind: Kind,
  items: readonly Row[],
): ListOf<Kind, Row> {
  return { apiVersion, kind, items };
}

/** The exit codes of all commands that print an answer. */
export const exitCodes = {
  /** Everything is fine. */
  fine: 0,
  /** The command could not answer. */
  noAnswer: 1,
  /** The command printed an answer, according to which something is wrong or would change. */
  wrong: 2,
} as const;

/**
 * Parses a daemon's answer. Throws if it has a different kind. If the daemon has a different version, the answer may lack
 * fields; see {@link otherVersion}.
 */
export function readAnswer<Kind extends keyof Answers>(kind: Kind, text: string): Answers[Kind] {
  const answer = parseJson(text);
  const fields = isRecord(answer) ? answer : {};
  if (fields["apiVersion"] === apiVersion && fields["kind"] === kind)
    return answer as Answers[Kind];
  const found = `${fields["kind"] ?? "no kind"} of ${fields["apiVersion"] ?? "no apiVersion"}`;
  throw otherVersion(`it is ${found} instead of ${kind} of ${apiVersion}`);
}

/** The error for an answer that this program does not understand. `reason` says what is wrong with the answer. */
export function otherVersion(reason: unknown): Error {
  return new Error(
    `Cannot use the daemon's answer: ${errorText(reason)}. The daemon's version differs from this command's ` +
      `(kube-ipvs ${version}): run the command in the daemon's container (kubectl exec)`,
    { cause: reason },
  );
}
