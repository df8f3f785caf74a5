/** Facts → findings. Pure. */
import type { Check, Finding, SkippedCheck } from "./check.ts";
import { checks } from "./checks.ts";
import type { NodeFacts } from "./facts.ts";

export interface Examination {
  readonly findings: readonly Finding[];
  readonly skipped: readonly SkippedCheck[];
}

/** Makes every check that can be made with these facts. */
export function examine(facts: NodeFacts): Examination {
  const findings: Finding[] = [];
  const skipped: SkippedCheck[] = [];
  for (const { name, why, judge, needs, modes } of checks) {
    if (modes !== undefined && !modes.includes(facts.mode)) continue;
    const reason = skipReason(needs, facts);
    if (reason === undefined) findings.push({ name, ...judge(facts), why });
    else skipped.push({ name, reason });
  }
  return { findings, skipped };
}

function skipReason(needs: Check["needs"], facts: NodeFacts): string | undefined {
  if (needs !== undefined && needs !== "cluster" && facts.isBeforeInstall)
    return "--before-install is given";
  if (needs === "daemon" && "skipped" in facts.daemon) return facts.daemon.skipped;
  if (needs === "cluster" && "skipped" in facts.cluster) return facts.cluster.skipped;
  return undefined;
}
