/** Creates and parses answers, and defines the exit codes of commands that print them. Pure. */
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
  /** The command answered, and something is wrong or would change. */
  wrong: 2,
} as const;

/** Fields that are required to show an answer. */
const neededFields: Readonly<Record<keyof Answers, readonly string[]>> = {
  Status: [
    ...["verdict", "summary", "node", "mode", "ipFamilies", "source", "counts", "versions"],
    ...["process", "rejectedObjects", "conflicts", "backingOffRepairs", "manualWeights"],
    "ignoredAnnotations",
  ],
  Configuration: ["configuration"],
  ServiceList: ["items"],
  DrainList: ["items"],
  History: ["items"],
  PlanFacts: [
    ...["mode", "families", "destinations", "services", "rules", "forwards", "virtualServers"],
    ...["setEntries", "boundAddresses", "listeners"],
  ],
};

/** Parses a daemon's answer. Throws if it has a different kind or lacks fields because the daemon's version differs. */
export function readAnswer<Kind extends keyof Answers>(kind: Kind, text: string): Answers[Kind] {
  const answer = parseJson(text);
  const fields = isRecord(answer) ? answer : {};
  const isExpected = fields["apiVersion"] === apiVersion && fields["kind"] === kind;
  const missing = neededFields[kind].filter((name) => fields[name] === undefined);
  if (isExpected && missing.length === 0) return answer as Answers[Kind];
  const found = isExpected
    ? `${kind} without ${missing.join(", ")}`
    : `${fields["kind"] ?? "no kind"} of ${fields["apiVersion"] ?? "no apiVersion"}`;
  throw new Error(
    `The daemon answered with ${found}, but this command (kube-ipvs ${version}) expects ${kind} of ${apiVersion}. ` +
      "The daemon has a different version: run the command in the daemon's container (kubectl exec)",
  );
}
