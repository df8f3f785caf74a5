/** Facts → findings. Pure. */
import type { Check, Finding, Need, SkippedCheck } from "./check.ts";
import { checks } from "./checks.ts";
import { isIpvsAvailable, type NodeFacts } from "./facts.ts";

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

function skipReason(needs: Check["needs"] = [], facts: NodeFacts): string | undefined {
  for (const need of needs) {
    const reason = reasons[need](facts);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

const notInstalled = ({ isBeforeInstall }: NodeFacts): string | undefined =>
  isBeforeInstall ? "--before-install is given" : undefined;

/** Why a need is not met; undefined if it is. */
const reasons: Readonly<Record<Need, (facts: NodeFacts) => string | undefined>> = {
  installed: notInstalled,
  daemon: (facts) =>
    notInstalled(facts) ?? ("skipped" in facts.daemon ? facts.daemon.skipped : undefined),
  cluster: ({ cluster }) => ("skipped" in cluster ? cluster.skipped : undefined),
  ipvs: (facts) => (isIpvsAvailable(facts) ? undefined : "IPVS is not available"),
};
