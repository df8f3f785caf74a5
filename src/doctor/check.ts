/** Types for checks and their findings. */
import { otherVersion } from "../answer/answer.ts";
import { errorText } from "../base/error-text.ts";
import type { Host, Node } from "./node.ts";

/** Verdicts from best to worst. */
export const verdicts = ["ok", "unknown", "warn", "fail"] as const;
export type Verdict = (typeof verdicts)[number];

/** The result of a check. */
export interface Judgement {
  readonly verdict: Verdict;
  /** The observed facts, with figures. */
  readonly evidence: string;
  /** How to fix the problem. Undefined if there is nothing to do. */
  readonly remedy?: string;
  /** The other Nodes that the evidence names. */
  readonly nodes?: readonly string[];
  /** The Services that the evidence names: `default/web`. */
  readonly services?: readonly string[];
}

export interface Finding extends Judgement {
  readonly name: string;
  /** Why the check matters, in one sentence. */
  readonly why: string;
}

/** A prerequisite without which a check is skipped. */
export type Need = "cluster" | "installed" | "daemon" | "ipvs";

interface CheckTopic {
  readonly name: string;
  readonly why: string;
  readonly needs?: readonly Need[];
  /** Modes to which the check applies. Undefined means all modes. */
  readonly modes?: readonly Host["mode"][];
}

/** The only mode with virtual servers. */
export const ipvsMode: readonly Host["mode"][] = ["ipvs"];
/** The modes that use kernel rules. */
export const kernelModes: readonly Host["mode"][] = ["ipvs", "iptables"];

export interface Check extends CheckTopic {
  readonly run: (node: Node) => Promise<Judgement>;
}

interface CheckDefinition<Facts> extends CheckTopic {
  /** If this or `judge` throws, the verdict is `unknown`. */
  readonly read: (node: Node) => Facts | Promise<Facts>;
  /** Pure. */
  readonly judge: (facts: Facts, host: Host) => Judgement;
}

export function check<Facts>({ read, judge, ...topic }: CheckDefinition<Facts>): Check {
  return {
    ...topic,
    async run(node) {
      try {
        return judge(await read(node), node);
      } catch (error) {
        const isOfDaemon = topic.needs?.includes("daemon") === true && error instanceof TypeError;
        return unknown(errorText(isOfDaemon ? otherVersion(error) : error));
      }
    },
  };
}

/** A check that did not run. */
export interface SkippedCheck {
  readonly name: string;
  readonly reason: string;
}

/** Maximum number of objects to name. */
const maxNamed = 5;

/** Names the first objects and counts the rest. If `all` is incomplete, `count` is the total. */
export function listed(all: readonly string[], count: number = all.length): string {
  const named = all.slice(0, maxNamed);
  const more = count - named.length;
  return [...named, ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
}

/** Adds those of the Nodes and Services that the evidence names. `sysdump --redact` replaces them. */
export function naming(
  judgement: Judgement,
  nodes: readonly string[],
  services: readonly string[],
): Judgement {
  const named = (all: readonly string[]): readonly string[] => [
    ...new Set(all.filter((name) => judgement.evidence.includes(name))),
  ];
  return { ...judgement, nodes: named(nodes), services: named(services) };
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
