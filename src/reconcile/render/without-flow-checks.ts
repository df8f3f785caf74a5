import type { ChangePlan } from "../change-plan.ts";

/**
 * A first sync checks the conntrack entries of every UDP virtual server: whether one is stale shows only when the kernel is
 * asked, so these checks are not differences. Pure.
 */
export function withoutFlowChecks(plan: ChangePlan): ChangePlan {
  const { deferred, drainStarts, conflicts } = plan;
  return {
    changes: plan.changes.filter(({ kind }) => kind !== "conntrack-delete"),
    ...{ deferred, drainStarts, conflicts },
    servicesOf: (change) => plan.servicesOf(change),
  };
}
