/** Formats a plan for programs. Pure. */
import type { ServiceName } from "../../base/service-name.ts";
import type { Change, ChangeKind, ChangeReason } from "../change.ts";
import type { ChangePlan, DeferralReason } from "../change-plan.ts";
import { subjectOf } from "../kinds/kinds.ts";
import type { Subject } from "../subject.ts";

/** One change. `before` and `after` are present if the kind has them. */
export interface ChangeObject {
  readonly kind: ChangeKind;
  readonly subject: Subject;
  readonly before?: unknown;
  readonly after?: unknown;
  readonly services: readonly ServiceName[];
  readonly reason: ChangeReason;
  /** Why the change is pending; absent if it is not. */
  readonly deferred?: DeferralReason;
}

export interface PlanObject {
  readonly changes: readonly ChangeObject[];
  /** Foreign virtual servers that Services also request. */
  readonly conflicts: readonly string[];
}

export function planObject(plan: ChangePlan): PlanObject {
  const objectOf = (change: Change): ChangeObject => ({
    kind: change.kind,
    subject: subjectOf(change),
    ...valuesOf(change),
    services: plan.servicesOf(change),
    reason: change.reason,
  });
  return {
    changes: [
      ...plan.changes.map(objectOf),
      ...plan.deferred.map(({ change, reason }) => ({ ...objectOf(change), deferred: reason })),
    ],
    conflicts: plan.conflicts,
  };
}

function valuesOf(change: Change): Pick<ChangeObject, "before" | "after"> {
  if (change.kind === "chain-write") return { before: change.before, after: change.chain.rules };
  if (change.kind === "set-create" || change.kind === "set-swap") return { after: change.set };
  return {
    ...("before" in change ? { before: change.before } : {}),
    ...("after" in change ? { after: change.after } : {}),
  };
}
