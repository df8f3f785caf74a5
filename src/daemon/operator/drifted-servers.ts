/** Finds virtual servers whose real servers a third party changed since the last verification. */
import { type RealServer, realServerKey } from "../../state/real-server.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import { type Absence, absenceOf } from "./absence.ts";
import type { DaemonView } from "./daemon-view.ts";

/**
 * Whether a planned real server that is in the cache is missing from the kernel, or has weight 0 there. A weight 0 that
 * kube-ipvs keeps is not drift. `observed` contains the virtual server's real servers in the kernel.
 */
export function hasDrifted(
  key: ServerKey,
  observed: readonly RealServer[],
  { plan, reconciler }: Pick<DaemonView, "plan" | "reconciler">,
  { isForeign, isManualWeight }: Pick<Absence, "isForeign" | "isManualWeight">,
): boolean {
  const cached = reconciler.cachedServers.get(key)?.realServers;
  if (cached === undefined || isForeign(key)) return false;
  const isCached = new Set(cached.map(realServerKey));
  const weights = new Map(observed.map((one) => [realServerKey(one), one.weight]));
  const planned = plan.desired.virtualServer(key)?.realServers ?? [];
  return planned.map(realServerKey).some((one) => {
    const weight = weights.get(one);
    if (!isCached.has(one) || (weight !== undefined && weight > 0)) return false;
    return weight === undefined || !isManualWeight(key, one);
  });
}

/** Rereads virtual servers in which earlier answers found drift, because they may have been repaired by now. */
export async function readDriftedAgain(view: DaemonView): Promise<void> {
  const { history, plan, ipvs } = view;
  if (history.unrepaired.size === 0) return;
  const absence = absenceOf(history);
  const servers = [...history.unrepaired.keys()].map((key) => ({
    key,
    id: plan.desired.virtualServer(key)?.virtualServer,
  }));
  const lists = await ipvs.listRealServers(servers.flatMap(({ id }) => id ?? []));
  let index = 0;
  for (const { key, id } of servers) {
    const observed = id === undefined ? undefined : (lists[index++] ?? []);
    history.noteSeen(key, observed !== undefined && hasDrifted(key, observed, view, absence));
  }
}
