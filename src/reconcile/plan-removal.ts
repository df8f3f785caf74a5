/** The plan towards nothing: everything of ours goes. Pure. */
import { type IpFamily, ipFamilies } from "../base/ip.ts";
import { setsFor, temporaryNameOf } from "../plan/sets.ts";
import { dummyLinkName } from "../state/dummy-link.ts";
import type { Change } from "./change.ts";
import { type ChangePlan, emptyPlan } from "./change-plan.ts";
import type { RulesRemoval } from "./iptables/plan-rules-removal.ts";
import type { CachedState } from "./observed/cached-state.ts";
import type { Owner } from "./ownership/classify.ts";
import { isExcluded, type OwnershipPolicy } from "./ownership/policy.ts";

/** Something that stays, and why. */
export interface Kept {
  readonly subject: string;
  readonly reason:
    | "referenced-by-third-party"
    | "foreign-virtual-server"
    | "possibly-owned"
    | "excluded-network";
}

export interface RemovalInput {
  readonly cached: CachedState;
  readonly owners: ReadonlyMap<string, Owner>;
  readonly policy: OwnershipPolicy;
  /** Of the families that can be read. */
  readonly rules: ReadonlyMap<IpFamily, RulesRemoval>;
}

/**
 * Plans the removal of everything that is ours: the link with its addresses, virtual servers, rules, sets. What
 * depends on something is removed before it.
 */
export function planRemoval(input: RemovalInput): {
  readonly plan: ChangePlan;
  readonly kept: readonly Kept[];
} {
  const kept: Kept[] = [];
  const changes: Change[] = [
    ...linkRemoval(input),
    ...serverRemovals(input, kept),
    ...ruleRemovals(input, kept),
    ...setRemovals(input),
  ];
  return { plan: { ...emptyPlan, changes }, kept };
}

function serverRemovals({ cached, owners, policy }: RemovalInput, kept: Kept[]): readonly Change[] {
  const removals: Change[] = [];
  for (const [key, { virtualServer: before }] of cached.virtualServers) {
    const owner = owners.get(key) ?? "foreign";
    if (isExcluded(before, policy)) kept.push({ subject: key, reason: "excluded-network" });
    else if (owner === "foreign") kept.push({ subject: key, reason: "foreign-virtual-server" });
    else if (owner === "possibly-owned") kept.push({ subject: key, reason: owner });
    else removals.push({ kind: "virtual-server-remove", key, before, reason: "unwanted" });
  }
  return removals;
}

function ruleRemovals({ rules }: RemovalInput, kept: Kept[]): readonly Change[] {
  return [...rules].flatMap(([family, removal]) => {
    for (const chain of removal.kept) {
      kept.push({ subject: `${family} ${chain}`, reason: "referenced-by-third-party" });
    }
    return removal.changes;
  });
}

function linkRemoval({ cached }: RemovalInput): readonly Change[] {
  return cached.hasLink ? [{ kind: "link-remove", link: dummyLinkName, reason: "unwanted" }] : [];
}

/** Whether a third-party rule still refers to one is seen when it is destroyed: ours do until they are gone. */
function setRemovals({ cached }: RemovalInput): readonly Change[] {
  const names = ipFamilies.flatMap(setsFor).map(({ name }) => name);
  return [...names, ...names.map(temporaryNameOf)]
    .filter((name) => cached.sets.has(name) || cached.temporarySets.has(name))
    .map((setName): Change => ({ kind: "set-destroy", setName, reason: "unwanted" }));
}
