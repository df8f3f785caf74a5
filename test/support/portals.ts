/** Userspace mode's rules in the fake kernel, without sockets. */
import type { IpFamily } from "../../src/base/ip.ts";
import { portalGoal, sharedPortalChains } from "../../src/daemon/userspace/portal-goal.ts";
import {
  TablesReconciler,
  type TablesReconcilerContext,
  type TablesReport,
} from "../../src/reconcile/iptables/tables-reconciler.ts";
import type { OpenListener } from "../../src/userspace/listener.ts";
import { FakeClock } from "./fake-clock.ts";

export class Portals {
  readonly #reconciler: TablesReconciler;

  constructor(
    kernel: TablesReconcilerContext["kernel"],
    families: readonly IpFamily[],
    more: Partial<TablesReconcilerContext> = {},
  ) {
    const context = { kernel, families, clock: new FakeClock(), isDryRun: false };
    this.#reconciler = new TablesReconciler({
      ...{ ...context, sharedChains: sharedPortalChains },
      ...more,
    });
  }

  forget(): void {
    this.#reconciler.invalidate();
  }

  sync(open: readonly OpenListener[]): Promise<TablesReport> {
    return this.#reconciler.sync(portalGoal(() => open, [], {}));
  }
}
