/** What a check is and what it says. */
import type { NodeFacts } from "./facts.ts";

/** The worst comes last. */
export const verdicts = ["ok", "unknown", "warn", "fail"] as const;
export type Verdict = (typeof verdicts)[number];

/** What a check found. */
export interface Judgement {
  readonly verdict: Verdict;
  /** What was seen, with its figures. */
  readonly evidence: string;
  /** What to do about it; absent: nothing. */
  readonly remedy?: string;
}

export interface Finding extends Judgement {
  readonly name: string;
  /** Why it matters, in a sentence. */
  readonly why: string;
}

/** What a check cannot do without. */
export type Need = "cluster" | "installed" | "daemon" | "ipvs";

/** A check; `judge` is pure. */
export interface Check {
  readonly name: string;
  readonly why: string;
  readonly needs?: readonly Need[];
  /** Modes that it is about, and is left out in others; absent: all. */
  readonly modes?: readonly NodeFacts["mode"][];
  readonly judge: (facts: NodeFacts) => Judgement;
}

/** A check that was not made. */
export interface SkippedCheck {
  readonly name: string;
  readonly reason: string;
}

/** More are counted, not named. */
const maxNamed = 5;

/** The first few, and how many more there are. `count`: where not all are given. */
export function listed(all: readonly string[], count: number = all.length): string {
  const named = all.slice(0, maxNamed);
  const more = count - named.length;
  return [...named, ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
}

export function worstVerdict(findings: readonly Pick<Judgement, "verdict">[]): Verdict {
  return verdicts.findLast((one) => findings.some(({ verdict }) => verdict === one)) ?? "ok";
}

export function ok(evidence: string): Judgement {
  return { verdict: "ok", evidence };
}

export function unknown(evidence: string, remedy?: string): Judgement {
  return { verdict: "unknown", evidence, ...(remedy === undefined ? {} : { remedy }) };
}

export function warn(evidence: string, remedy: string): Judgement {
  return { verdict: "warn", evidence, remedy };
}

export function fail(evidence: string, remedy: string): Judgement {
  return { verdict: "fail", evidence, remedy };
}
