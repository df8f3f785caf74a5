/** The listeners that a start of userspace mode requests, with the addresses of each Service. */
import { finish } from "../../src/base/time-slice.ts";
import { findHoldersInRules } from "../../src/daemon/node/served-by-rules.ts";
import { ListenerPlan } from "../../src/daemon/userspace/listener-plan.ts";
import type { Iptables } from "../../src/kernel/kernel.ts";
import type { ChangeTracker } from "../../src/model/change-tracker.ts";
import type { PlanOptions } from "../../src/plan/options.ts";
import type { PlanContext } from "../../src/plan/plan-context.ts";
import type { ServiceListener } from "../../src/userspace/service-listeners.ts";

/** `iptables`: the tables whose rules show the owners of addresses. Undefined if there are none. */
export async function wantedListeners(
  tracker: Pick<ChangeTracker, "serviceNames" | "service" | "slicesOf">,
  options: PlanOptions,
  context: Pick<PlanContext, "held" | "claims">,
  iptables: Pick<Iptables, "observe"> | undefined,
): Promise<readonly ServiceListener[]> {
  const plan = new ListenerPlan({ startedAtMs: 0, ...context });
  for (const name of tracker.serviceNames()) {
    plan.tracker.noteService(undefined, tracker.service(name));
    for (const slice of tracker.slicesOf(name)) plan.tracker.noteSlice(undefined, slice);
  }
  const { changed } = finish(plan.update(options));
  if (iptables !== undefined) {
    const undecided = plan.claims.undecided();
    for (const family of options.families.keys()) {
      plan.claims.holdAll(await findHoldersInRules("userspace", undecided, iptables, family));
    }
  }
  plan.claims.settle();
  return [...changed.values()].flat().map((listener) => plan.claims.won(listener));
}
