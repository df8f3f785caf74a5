import type { ChangePlan } from "../change-plan.ts";
import type { SyncGoal } from "../sync-goal.ts";
import type { CachedState } from "./cached-state.ts";

/** As long as the plan is the same object, the rules need not be compared again. */
export function noteRightRules(
  cached: CachedState,
  { changes }: Pick<ChangePlan, "changes">,
  { rules }: Pick<SyncGoal, "rules">,
): void {
  for (const [family, plan] of rules) {
    const isChanged = changes.some((change) => "family" in change && change.family === family);
    const present = cached.rules.get(family);
    if (!isChanged && present !== undefined && present.plan !== plan) {
      cached.rules.set(family, { ...present, plan });
    }
  }
}
