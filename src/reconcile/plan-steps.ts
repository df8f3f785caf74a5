/** The order in which a sync makes its changes. */
import type { Change } from "./change.ts";
import type { DrainStart } from "./change-plan.ts";

/**
 * This order keeps packet handling correct at every moment. Additions are made first: restrictions, then the objects
 * that they restrict. Each object is added after its dependencies, which `relations.ts` defines. Removals follow in the
 * reverse order, so restrictions are removed last.
 */
const steps = [
  "settings",
  "link",
  "sets",
  /** Adds restrictions, and removes source entries that admit too many clients. */
  "limits",
  "entries",
  "rules",
  /** Entries for load balancers with source ranges, added after the rules that check the ranges. */
  "limitedEntries",
  "virtualServers",
  "realServers",
  "addresses",
  /** Sets the weight of removed endpoints to 0, and removes real servers that do not drain. */
  "leavingRealServers",
  "formerAddresses",
  "formerServers",
  "formerEntries",
  /** Removes restrictions. Source entries are removed last; otherwise all clients would be blocked for a moment. */
  "formerLimits",
  "formerRules",
  "formerSets",
  /**
   * Deletes UDP conntrack entries of removed real servers, and of virtual servers that had no real servers until now.
   */
  "flows",
] as const;

/** A plan's changes by step, and the drains that they start. */
export type PlanSteps = Record<(typeof steps)[number], Change[]> & {
  readonly drainStarts: DrainStart[];
};

export function noSteps(): PlanSteps {
  const empty = Object.fromEntries(steps.map((step) => [step, []]));
  return { ...empty, drainStarts: [] } as unknown as PlanSteps;
}

/** Concatenates all steps in one call, because a growing list would be copied repeatedly. */
export function changesInOrder(plan: PlanSteps): readonly Change[] {
  return noChanges.concat(...steps.map((step) => plan[step]));
}

const noChanges: readonly Change[] = [];
