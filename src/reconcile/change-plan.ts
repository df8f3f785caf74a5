import type { ServiceName } from "../base/service-name.ts";
import type { DesiredView } from "../plan/desired-state.ts";
import type { RealServer } from "../state/real-server.ts";
import type { VirtualServerId } from "../state/virtual-server.ts";
import type { Change } from "./change.ts";
import { subjectOf } from "./kinds/kinds.ts";
import type { Scope } from "./scope.ts";

/** A real server that nobody wants and that keeps its connections for now. */
export interface DrainStart {
  readonly virtualServerKey: string;
  readonly virtualServer: VirtualServerId;
  readonly realServer: RealServer;
  readonly reason: DrainStartReason;
}

/** `found-draining`: a start found it without weight. */
export type DrainStartReason = "endpoint-removed" | "found-draining";

/** Why a change waits. */
export type DeferralReason =
  /** The kernel refused it before; it is retried later, or at once when its object changes. */
  | "refused"
  /** A third party reverts it again and again. */
  | "reverted";

export interface DeferredChange {
  readonly change: Change;
  readonly reason: DeferralReason;
}

/** What is to be done, worked out before the first write. Never changed afterwards. */
export interface ChangePlan {
  /** In the order in which they are made. */
  readonly changes: readonly Change[];
  readonly deferred: readonly DeferredChange[];
  readonly drainStarts: readonly DrainStart[];
  /** Keys of virtual servers that Services claim and a third party has. */
  readonly conflicts: readonly string[];
  /** Names of the Services that a change belongs to; empty where none is known. */
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
 * A first sync checks the conntrack entries of every UDP virtual server: whether one is stale shows only when the kernel is
 * asked, so these checks are not differences. Pure.
 */
export function withoutFlowChecks(plan: ChangePlan): ChangePlan {
  return { ...plan, changes: plan.changes.filter(({ kind }) => kind !== "conntrack-delete") };
}

/** Who wants what a change is about, or wanted it last; `scope` absent: those who want it alone. */
export function servicesOfChange(
  desired: DesiredView,
  scope?: Pick<Scope, "formerService">,
): ChangePlan["servicesOf"] {
  const orFormer = (present: readonly ServiceName[], key: string): readonly ServiceName[] => {
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
        return orFormer(desired.servicesOfEntry(setName, entry), `${setName} ${entry}`);
      }
      case "address":
        return orFormer(desired.servicesOfAddress(subject.address), subject.address);
      default:
        return [];
    }
  };
}
