/** The order in which a sync makes its changes. */
import type { Change } from "./change.ts";
import type { DrainStart } from "./change-plan.ts";

/**
 * Keeps packets right at every moment. Additions first: what restricts, then what permits, each after what it depends on.
 * Then removals in reverse, and last what stops restricting. Dependencies: `relations.ts`.
 */
const steps = [
  "settings",
  "link",
  "sets",
  /** What keeps clients out, and source entries that let in too many. */
  "limits",
  "entries",
  "rules",
  /** Entries of load balancers with source ranges: not before the rules that check the ranges. */
  "limitedEntries",
  "virtualServers",
  "realServers",
  "addresses",
  /** Weight zero for real servers that leave, and removals of those that do not drain. */
  "leavingRealServers",
  "formerAddresses",
  "formerServers",
  "formerEntries",
  /** What kept clients out. Source entries are last, or nobody would get in for a moment. */
  "formerLimits",
  "formerRules",
  "formerSets",
  /** Tracked UDP flows of what was removed, or had nobody until now. */
  "flows",
] as const;

/** The changes of a plan by step, and what belongs to them. */
export type PlanSteps = Record<(typeof steps)[number], Change[]> & {
  readonly drainStarts: DrainStart[];
};

export function noSteps(): PlanSteps {
  const empty = Object.fromEntries(steps.map((step) => [step, []]));
  return { ...empty, drainStarts: [] } as unknown as PlanSteps;
}

/** Joined at once: a list that grows is copied again and again. */
export function changesInOrder(plan: PlanSteps): readonly Change[] {
  return noChanges.concat(...steps.map((step) => plan[step]));
}

const noChanges: readonly Change[] = [];
