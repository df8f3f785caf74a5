/** What a check is, and what it finds. */
import { errorText } from "../base/error-text.ts";
import type { Host, Node } from "./node.ts";

/** The worst comes last. */
export const verdicts = ["ok", "unknown", "warn", "fail"] as const;
export type Verdict = (typeof verdicts)[number];

/** What a check found. */
export interface Judgement {
  readonly verdict: Verdict;
  /** What was seen, with its figures. */
  readonly evidence: string;
  /** What to do about it. Undefined if there is nothing to do. */
  readonly remedy?: string;
}

export interface Finding extends Judgement {
  readonly name: string;
  /** Why it matters, in a sentence. */
  readonly why: string;
}

/** What a check cannot do without. */
export type Need = "cluster" | "installed" | "daemon" | "ipvs";

interface CheckTopic {
  readonly name: string;
  readonly why: string;
  readonly needs?: readonly Need[];
  /** The check is left out in other modes. Undefined if it applies to all modes. */
  readonly modes?: readonly Host["mode"][];
}

/** Virtual servers exist in this mode alone. */
export const ipvsMode: readonly Host["mode"][] = ["ipvs"];
/** The modes that need rules of the kernel. */
export const kernelModes: readonly Host["mode"][] = ["ipvs", "iptables"];

export interface Check extends CheckTopic {
  readonly run: (node: Node) => Promise<Judgement>;
}

interface CheckDefinition<Facts> extends CheckTopic {
  /** If it throws, the check is `unknown`. */
  readonly read: (node: Node) => Facts | Promise<Facts>;
  /** Pure. */
  readonly judge: (facts: Facts, host: Host) => Judgement;
}

export function check<Facts>({ read, judge, ...topic }: CheckDefinition<Facts>): Check {
  return {
    ...topic,
    async run(node) {
      let facts: Facts;
      try {
        facts = await read(node);
      } catch (error) {
        return unknown(errorText(error));
      }
      return judge(facts, node);
    },
  };
}

/** A check that did not run. */
export interface SkippedCheck {
  readonly name: string;
  readonly reason: string;
}

/** More are counted, not named. */
const maxNamed = 5;

/** Names the first few, and says how many more exist. `count` is given if `all` is incomplete. */
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
