/** Plans what userspace mode would do when it starts on a node. */
import type { IpFamily } from "../../src/base/ip.ts";
import type { Config } from "../../src/config/config.ts";
import { ObservedListeners } from "../../src/daemon/userspace/observed-listeners.ts";
import type { ListeningSocket } from "../../src/kernel/listening-sockets.ts";
import type { ChangePlan } from "../../src/reconcile/change-plan.ts";
import { emptyPlan } from "../../src/reconcile/change-plan.ts";
import type { TablesReconcilerContext } from "../../src/reconcile/iptables/tables-reconciler.ts";
import type { SoughtListener } from "../../src/userspace/find-listeners.ts";
import type { ServiceListener } from "../../src/userspace/service-listeners.ts";
import { Portals } from "./portals.ts";

export interface UserspacePlan {
  readonly toOpen: readonly SoughtListener[];
  readonly rules: ChangePlan;
}

export interface Node {
  /** Undefined if there is no iptables. */
  readonly kernel: TablesReconcilerContext["kernel"] | undefined;
  readonly families: readonly IpFamily[];
  readonly sockets: readonly ListeningSocket[];
}

/** `wanted` are the listeners with the addresses that their Services own. Rejects if rules cannot be read. */
export async function planUserspace(
  wanted: readonly ServiceListener[],
  { kernel, families, sockets }: Node,
  config: Pick<Config, "bindAddress">,
): Promise<UserspacePlan> {
  const observed = new ObservedListeners({
    ...{ config, iptables: kernel?.iptables, won: (one) => one, listSockets: () => [...sockets] },
  });
  await observed.replaceServices(Map.groupBy(wanted, ({ servicePort }) => servicePort.service));
  for (const family of families) await observed.look(family);
  const toOpen = observed.toOpen();
  if (kernel === undefined) return { toOpen, rules: emptyPlan };
  const portals = new Portals(kernel, families, { isDryRun: true });
  const { plan, failures } = await portals.sync(observed.openOnceStarted());
  for (const { error } of failures) throw error;
  return { toOpen, rules: plan };
}
