/** Plans all changes of a sync. Pure. The generators yield between values, because there may be many. */
import type { IpAddress } from "../base/ip.ts";
import type { DesiredView } from "../plan/desired-state.ts";
import { dummyLinkName } from "../state/dummy-link.ts";
import type { Rule } from "../state/rule.ts";
import type { ServerKey } from "../state/virtual-server.ts";
import type { Change, ChangeReason, LinkChange } from "./change.ts";
import { type ChangePlan, servicesOfChange } from "./change-plan.ts";
import { comparedPerPiece, union } from "./kinds/compared-keys.ts";
import { diffRules } from "./kinds/diff-rules.ts";
import {
  conntrackDeletion,
  diffServer,
  removeServer,
  type ServerPolicies,
} from "./kinds/diff-servers.ts";
import { diffEntries } from "./kinds/entries.ts";
import { addInTwoSteps } from "./kinds/restrictions.ts";
import { destroyAll, diffSets } from "./kinds/sets.ts";
import type { CachedState } from "./observed/cached-state.ts";
import type { ObservedPart } from "./observed/observer.ts";
import { isExcluded } from "./ownership/policy.ts";
import { changesInOrder, noSteps, type PlanSteps } from "./plan-steps.ts";
import type { Scope } from "./scope.ts";
import type { SyncGoal } from "./sync-goal.ts";

/** Everything that a plan depends on. */
export interface PlanInput
  extends ServerPolicies,
    Pick<SyncGoal, "ownership" | "rules" | "sysctls" | "missingModules" | "cleanUp"> {
  /** The desired state without foreign virtual servers; see `contested-view.ts`. */
  readonly desired: DesiredView;
  readonly cached: CachedState;
  readonly scope: Scope;
  /** Keys of foreign virtual servers that Services request. They are not in `desired` and must not be removed. */
  readonly conflicts: ReadonlySet<ServerKey>;
  isOwned(virtualServerKey: ServerKey): boolean;
  /** The parts of the kernel state that were read. No objects are created in other parts. */
  readonly parts: readonly ObservedPart[];
  /** Undefined if our rules never have this form. */
  parse(text: string): Rule | undefined;
}

/** Plans the changes, in the order of `plan-steps.ts`. */
export function* planChanges(input: PlanInput): Generator<void, ChangePlan> {
  const { cached, desired, scope, parts } = input;
  const steps = noSteps();
  yield* diffEntries(input, steps);
  yield* diffServers(input, steps);
  yield* diffAddresses(input, steps);
  diffSettings(input, steps);
  diffSets(
    {
      cached,
      rules: parts.includes("sets") ? input.rules : new Map(),
      addedCounts: countBySet(steps),
      mayShrink: (name) => scope.isFull || scope.resizableSets.has(name),
    },
    steps,
  );
  yield* diffRulesOf(input, steps);
  if (input.cleanUp === undefined) {
    if (!cached.hasLink && parts.includes("link"))
      steps.link.push(linkChange("link-create", "missing"));
  } else {
    // Removing the link also removes its addresses.
    if (cached.hasLink) steps.formerAddresses.push(linkChange("link-remove", "unwanted"));
    steps.formerRules = [...input.cleanUp.rules];
    steps.formerSets.push(...destroyAll(cached));
  }
  return {
    changes: changesInOrder(steps),
    deferred: [],
    drainStarts: steps.drainStarts,
    conflicts: [...input.conflicts],
    servicesOf: servicesOfChange(desired, scope),
  };
}

function linkChange(kind: LinkChange["kind"], reason: ChangeReason): Change {
  return { kind, link: dummyLinkName, reason };
}

function* diffAddresses(
  { desired, cached, scope }: PlanInput,
  steps: PlanSteps,
): Generator<void, void> {
  const isDesired = (address: IpAddress): boolean => desired.hasAddress(address);
  const addresses =
    scope.addresses === undefined
      ? union(desired.addresses(), cached.addresses, isDesired)
      : new Set([...scope.addresses, ...createdAddresses(steps.virtualServers)]);
  let compared = 0;
  for (const address of addresses) {
    compared += 1;
    if (compared % comparedPerPiece === 0) yield;
    const isWanted = isDesired(address);
    if (isWanted === cached.addresses.has(address)) continue;
    if (isWanted) steps.addresses.push({ kind: "address-add", address, reason: "missing" });
    else steps.formerAddresses.push({ kind: "address-remove", address, reason: "unwanted" });
  }
}

/**
 * Returns the addresses of the virtual servers that will be created. An address is bound only while one of its virtual
 * servers exists, so these addresses may have to be bound.
 */
function createdAddresses(serverChanges: readonly Change[]): readonly IpAddress[] {
  return serverChanges.flatMap((change) =>
    change.kind === "virtual-server-create" ? [change.after.address] : [],
  );
}

function* diffServers(input: PlanInput, steps: PlanSteps): Generator<void, void> {
  const { desired, cached } = input;
  let compared = 0;
  for (const key of comparedServers(input)) {
    compared += 1;
    if (compared % comparedPerPiece === 0) yield;
    const wanted = desired.virtualServer(key);
    const present = cached.virtualServers.get(key);
    if (wanted !== undefined) {
      diffServer({ key, desired: wanted, cached: present }, input, steps);
    } else if (present !== undefined && mayRemove(key, input)) {
      removeServer(key, present, steps);
    }
  }
  if (input.isFirst) steps.flows = staleAtStart(desired);
}

/** At startup, checks the flows of all UDP virtual servers, because an earlier proxy may have left stale ones. */
function staleAtStart(desired: DesiredView): Change[] {
  const changes: Change[] = [];
  for (const key of desired.virtualServerKeys()) {
    const server = desired.virtualServer(key)?.virtualServer;
    if (server?.protocol === "UDP") changes.push(conntrackDeletion(key, server));
  }
  return changes;
}

/** Whether a virtual server may be removed: it must be ours, outside excluded networks, and not in conflict. */
function mayRemove(key: ServerKey, { cached, conflicts, ownership, isOwned }: PlanInput): boolean {
  const present = cached.virtualServers.get(key);
  if (present === undefined || conflicts.has(key)) return false;
  if (isExcluded(present.virtualServer, ownership)) return false;
  return ownership.foreignVirtualServers === "delete" || isOwned(key);
}

function comparedServers({ desired, cached, scope }: PlanInput): Iterable<ServerKey> {
  const isWanted = (key: ServerKey): boolean => desired.virtualServer(key) !== undefined;
  return (
    scope.virtualServers ??
    union(desired.virtualServerKeys(), cached.virtualServers.keys(), isWanted)
  );
}

function diffSettings(
  { cached, missingModules, sysctls }: PlanInput,
  { settings }: PlanSteps,
): void {
  for (const module of missingModules) {
    settings.push({ kind: "module-load", module, reason: "missing" });
  }
  for (const { path, value: after } of sysctls) {
    const before = cached.sysctls.get(path);
    if (!cached.sysctls.has(path) || before === after) continue;
    settings.push({ kind: "sysctl-write", path, before, after, reason: "differs" });
  }
}

function* diffRulesOf(
  { rules, cached, parse }: PlanInput,
  steps: PlanSteps,
): Generator<void, void> {
  for (const [family, planned] of rules) {
    const present = cached.rules.get(family);
    if (present === undefined) continue;
    const changes = yield* diffRules({ family, planned, cached: present });
    if (planned.ofServices !== undefined) steps.rules.push(...changes);
    else for (const change of changes) addInTwoSteps(change, present, parse, steps);
  }
}

function countBySet({ limits, entries, limitedEntries }: PlanSteps): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const changes of [limits, entries, limitedEntries]) {
    for (const change of changes) {
      if (change.kind !== "entry-add") continue;
      counts.set(change.set.name, (counts.get(change.set.name) ?? 0) + 1);
    }
  }
  return counts;
}
