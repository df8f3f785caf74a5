/** Works out everything that a sync has to change. Pure; the generators yield between values, of which there may be very many. */
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { DesiredView } from "../plan/desired-state.ts";
import { dummyLinkName } from "../state/dummy-link.ts";
import type { Rule } from "../state/rule.ts";
import type { RefusedChange } from "./apply/outcome.ts";
import type { Change, ChangeReason, LinkChange } from "./change.ts";
import { type ChangePlan, servicesOfChange } from "./change-plan.ts";
import { comparedPerPiece, union } from "./kinds/compared-keys.ts";
import { diffRules } from "./kinds/diff-rules.ts";
import {
  conntrackDeletion,
  diffServer,
  noServerChanges,
  removeServer,
  type ServerChanges,
  type ServerPolicies,
} from "./kinds/diff-servers.ts";
import { diffEntries, type EntryChanges } from "./kinds/entries.ts";
import { inTwoSteps, type TwoSteps } from "./kinds/restrictions.ts";
import type { RenderRule } from "./kinds/rule-texts.ts";
import { destroyAll, destroyTemporary, diffSets } from "./kinds/sets.ts";
import { type CachedState, noRules } from "./observed/cached-state.ts";
import { isExcluded } from "./ownership/policy.ts";
import type { Scope } from "./scope.ts";
import type { SyncGoal } from "./sync-goal.ts";

/** All that a plan depends on. */
export interface PlanInput
  extends ServerPolicies,
    Pick<SyncGoal, "rules" | "sysctls" | "missingModules" | "cleanUp"> {
  /** What is wanted, without what a third party has; see `contested-view.ts`. */
  readonly desired: DesiredView;
  readonly cached: CachedState;
  readonly scope: Scope;
  /** Keys that Services claim and a third party has: left out of `desired`, and not to be removed. */
  readonly conflicts: ReadonlySet<string>;
  isOwned(virtualServerKey: string): boolean;
  render(family: IpFamily, rule: Rule): string;
  /** Undefined: the rule is not ours. */
  parse(text: string): Rule | undefined;
  /** The kernel rejected the replacement of this set, and it is not due again. */
  isSetPending(setName: string): boolean;
}

export interface PlannedChanges extends ChangePlan {
  /** Refused without asking the kernel; not among the changes. */
  readonly impossible: readonly RefusedChange[];
}

/**
 * Plans the changes, in an order that keeps packets right at every moment. Additions first: what restricts, then what
 * permits, each after what it depends on. Then removals in reverse, and last what stops restricting. Dependencies:
 * `relations.ts`.
 */
export function* planChanges(input: PlanInput): Generator<void, PlannedChanges> {
  const { cached, desired, scope } = input;
  const entries = yield* diffEntries(input);
  const servers = yield* diffServers(input);
  const addresses = yield* diffAddresses(input, servers.virtualServers);
  const sets = diffSets({
    cached,
    families: input.rules.keys(),
    addedCounts: countBySet(entries),
    mayShrink: (name) => scope.isFull || scope.resizableSets.has(name),
    isPending: input.isSetPending,
  });
  const rules = ruleChanges(input);
  // Joined at once: a list that grows is copied again and again.
  const changes = noChanges.concat(
    input.missingModules.map((module) => ({ kind: "module-load", module, reason: "missing" })),
    diffSysctls(input),
    input.cleanUp || cached.hasLink ? [] : [linkChange("link-create", "missing")],
    destroyTemporary(cached),
    sets.changes,
    entries.limits,
    entries.added,
    rules.now,
    entries.limited,
    servers.virtualServers,
    servers.realServers,
    addresses.added,
    servers.leaving,
    addresses.removed,
    input.cleanUp && cached.hasLink ? [linkChange("link-remove", "unwanted")] : [],
    servers.removals,
    entries.removed,
    entries.unlimited,
    rules.later,
    input.cleanUp?.rules ?? [],
    input.cleanUp ? destroyAll(cached) : [],
    servers.conntrack,
  );
  return {
    changes,
    deferred: [],
    drainStarts: servers.drainStarts,
    conflicts: [...input.conflicts],
    impossible: sets.impossible,
    servicesOf: servicesOfChange(desired, scope),
  };
}

const noChanges: readonly Change[] = [];

function linkChange(kind: LinkChange["kind"], reason: ChangeReason): Change {
  return { kind, link: dummyLinkName, reason };
}

interface Members {
  readonly added: Change[];
  readonly removed: Change[];
}

function* diffAddresses(
  { desired, cached, scope }: PlanInput,
  serverChanges: readonly Change[],
): Generator<void, Members> {
  const [added, removed]: [Change[], Change[]] = [[], []];
  const isDesired = (address: IpAddress): boolean => desired.hasAddress(address);
  const addresses =
    scope.addresses === undefined
      ? union(desired.addresses(), cached.addresses, isDesired)
      : new Set([...scope.addresses, ...createdAddresses(serverChanges)]);
  let compared = 0;
  for (const address of addresses) {
    compared += 1;
    if (compared % comparedPerPiece === 0) yield;
    const isWanted = isDesired(address);
    if (isWanted === cached.addresses.has(address)) continue;
    if (isWanted) added.push({ kind: "address-add", address, reason: "missing" });
    else removed.push({ kind: "address-remove", address, reason: "unwanted" });
  }
  return { added, removed };
}

/** An address is not bound, or not any more, while none of its virtual servers can be made. */
function createdAddresses(serverChanges: readonly Change[]): readonly IpAddress[] {
  return serverChanges.flatMap((change) =>
    change.kind === "virtual-server-create" ? [change.after.address] : [],
  );
}

function* diffServers(input: PlanInput): Generator<void, ServerChanges> {
  const { desired, cached } = input;
  const changes = noServerChanges();
  let compared = 0;
  for (const key of comparedServers(input)) {
    compared += 1;
    if (compared % comparedPerPiece === 0) yield;
    const wanted = desired.virtualServer(key);
    const present = cached.virtualServers.get(key);
    if (wanted !== undefined) {
      diffServer({ key, desired: wanted, cached: present }, input, changes);
    } else if (present !== undefined && mayRemove(key, input)) {
      removeServer(key, present, changes);
    }
  }
  return input.isFirst ? { ...changes, conntrack: staleAtStart(desired) } : changes;
}

/** A program that ran before may have left flows anywhere. */
function staleAtStart(desired: DesiredView): Change[] {
  const changes: Change[] = [];
  for (const key of desired.virtualServerKeys()) {
    const server = desired.virtualServer(key)?.virtualServer;
    if (server?.protocol === "UDP") changes.push(conntrackDeletion(key, server));
  }
  return changes;
}

/** Ours, in no excluded network, and not claimed in vain. */
function mayRemove(key: string, { cached, conflicts, ownership, isOwned }: PlanInput): boolean {
  const present = cached.virtualServers.get(key);
  if (present === undefined || conflicts.has(key)) return false;
  if (isExcluded(present.virtualServer, ownership)) return false;
  return ownership.foreignVirtualServers === "delete" || isOwned(key);
}

function comparedServers({ desired, cached, scope }: PlanInput): Iterable<string> {
  const isWanted = (key: string): boolean => desired.virtualServer(key) !== undefined;
  return (
    scope.virtualServers ??
    union(desired.virtualServerKeys(), cached.virtualServers.keys(), isWanted)
  );
}

function diffSysctls({ cached, sysctls }: PlanInput): readonly Change[] {
  return sysctls
    .filter(({ path, value }) => cached.sysctls.has(path) && cached.sysctls.get(path) !== value)
    .map(({ path, value: after }): Change => {
      const before = cached.sysctls.get(path);
      return { kind: "sysctl-write", path, before, after, reason: "differs" };
    });
}

function ruleChanges({ rules, cached, render, parse }: PlanInput): TwoSteps {
  const steps = [...rules].flatMap(([family, planned]) => {
    const ofFamily: RenderRule = (rule) => render(family, rule);
    const present = cached.rules.get(family) ?? noRules;
    const changes = diffRules({ family, planned, cached: present, render: ofFamily });
    return changes.map((change) => inTwoSteps(change, ofFamily, parse));
  });
  return {
    now: steps.flatMap(({ now }) => now),
    later: steps.flatMap(({ later }) => later),
  };
}

function countBySet({ limits, added, limited }: EntryChanges): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const changes of [limits, added, limited]) {
    for (const change of changes) {
      if (change.kind !== "entry-add") continue;
      counts.set(change.set.name, (counts.get(change.set.name) ?? 0) + 1);
    }
  }
  return counts;
}
