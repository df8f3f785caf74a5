import type { ServiceName } from "../base/service-name.ts";
import type { DesiredView } from "../plan/desired-state.ts";
import type { RealServer } from "../state/real-server.ts";
import type { VirtualServerId } from "../state/virtual-server.ts";
import type { Change } from "./change.ts";
import type { Scope } from "./scope.ts";
import { type Subject, subjectOf } from "./subject.ts";

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
  /** It depends on a change that was refused. */
  | "blocked"
  /** A third party reverts it again and again. */
  | "reverted";

export interface DeferredChange {
  readonly change: Change;
  readonly reason: DeferralReason;
}

/** What is to be done, worked out before the first write. Never changed afterwards. */
export interface ChangePlan {
  /** In the order in which they are made; see `plan-order.ts`. */
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

/** Who wants, or wanted, what a subject is about. */
function servicesOfSubject(
  subject: Subject,
  desired: DesiredView,
  scope: Pick<Scope, "formerService">,
): readonly ServiceName[] {
  const present = currentServices(subject, desired);
  if (present.length > 0) return present;
  const former = scope.formerService(formerKey(subject));
  return former === undefined ? [] : [former];
}

export function servicesOfChange(
  desired: DesiredView,
  scope: Pick<Scope, "formerService">,
): ChangePlan["servicesOf"] {
  return (change) => servicesOfSubject(subjectOf(change), desired, scope);
}

function currentServices(subject: Subject, desired: DesiredView): readonly ServiceName[] {
  switch (subject.type) {
    case "virtual-server":
    case "real-server":
    case "conntrack":
      return desired.servicesOfServer(subject.virtualServer).slice(0, 1);
    case "entry":
      return desired.servicesOfEntry(subject.setName, subject.entry);
    case "address":
      return desired.servicesOfAddress(subject.address);
    default:
      return [];
  }
}

/** As {@link DirtyKeys.formerServices} has it. */
function formerKey(subject: Subject): string {
  switch (subject.type) {
    case "virtual-server":
    case "real-server":
    case "conntrack":
      return subject.virtualServer;
    case "entry":
      return `${subject.setName} ${subject.entry}`;
    case "address":
      return subject.address;
    default:
      return "";
  }
}
