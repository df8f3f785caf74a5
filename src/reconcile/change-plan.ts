import type { ServiceName } from "../base/service-name.ts";
import type { DesiredView } from "../plan/desired-state.ts";
import { entryKey, type FormerKey } from "../plan/dirty-keys.ts";
import type { RealServer } from "../state/real-server.ts";
import type { Chain } from "../state/rule.ts";
import type { ServerKey, VirtualServerId } from "../state/virtual-server.ts";
import type { Change } from "./change.ts";
import { subjectOf } from "./kinds/kinds.ts";
import type { Scope } from "./scope.ts";

/** A real server that is no longer desired but keeps its connections for now. */
export interface DrainStart {
  readonly virtualServerKey: ServerKey;
  readonly virtualServer: VirtualServerId;
  readonly realServer: RealServer;
  readonly reason: DrainStartReason;
}

/** `found-draining`: the real server already had weight 0 at startup. */
export type DrainStartReason = "endpoint-removed" | "found-draining";

/** Why a change is pending. */
export type DeferralReason =
  /** The kernel rejected the change earlier. It is retried later, or immediately when its object changes. */
  | "refused"
  /** A third party keeps reverting the change. */
  | "reverted";

export interface DeferredChange {
  readonly change: Change;
  readonly reason: DeferralReason;
}

/** The planned changes, computed before the first write. Immutable. */
export interface ChangePlan {
  /** In execution order. */
  readonly changes: readonly Change[];
  readonly deferred: readonly DeferredChange[];
  readonly drainStarts: readonly DrainStart[];
  /** Keys of foreign virtual servers that Services also request. */
  readonly conflicts: readonly ServerKey[];
  /** Names of the Services that a change belongs to; empty if unknown. */
  servicesOf(change: Change): readonly ServiceName[];
}

export const emptyPlan: ChangePlan = {
  changes: [],
  deferred: [],
  drainStarts: [],
  conflicts: [],
  servicesOf: () => [],
};

/**
 * Omits the conntrack checks that a first sync makes for every UDP virtual server. They do not indicate a difference,
 * because whether entries are stale is known only after the check. Pure.
 */
export function withoutFlowChecks(plan: ChangePlan): ChangePlan {
  return { ...plan, changes: plan.changes.filter(({ kind }) => kind !== "conntrack-delete") };
}

/**
 * Returns the Services that desire a change's subject. If there are none, returns the last Service that did, which is
 * known only if `scope` is given.
 */
export function servicesOfChange(
  desired: DesiredView,
  scope?: Pick<Scope, "formerService">,
): ChangePlan["servicesOf"] {
  const orFormer = (present: readonly ServiceName[], key: FormerKey): readonly ServiceName[] => {
    const former = present.length === 0 ? scope?.formerService(key) : undefined;
    return former === undefined ? present : [former];
  };
  return (change) => {
    const subject = subjectOf(change);
    switch (subject.type) {
      case "virtual-server":
      case "real-server":
      case "conntrack": {
        const key = subject.virtualServer;
        return orFormer(desired.servicesOfServer(key).slice(0, 1), key);
      }
      case "entry": {
        const { setName, entry } = subject;
        return orFormer(desired.servicesOfEntry(setName, entry), entryKey(setName, entry));
      }
      case "address":
        return orFormer(desired.servicesOfAddress(subject.address), subject.address);
      default:
        return change.kind === "chain-write" ? serviceOfRules(change.chain) : [];
    }
  };
}

/** The Service in the comments of a chain, unless the comments name several. */
function serviceOfRules({ rules }: Chain): readonly ServiceName[] {
  const names = new Set<string>();
  for (const match of rules.flatMap(({ matches }) => matches)) {
    const name =
      match.kind === "comment" ? /(?:^| )([^ /:]+\/[^ /:]+)/.exec(match.text)?.[1] : undefined;
    if (name !== undefined) names.add(name);
    if (names.size > 1) return [];
  }
  return [...names] as ServiceName[];
}
