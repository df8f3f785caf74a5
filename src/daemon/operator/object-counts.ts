import type { Counts } from "./answers.ts";
import type { ModeView, ObjectsView } from "./daemon-view.ts";

const nothing: Counts = {
  services: 0,
  endpoints: 0,
  virtualServers: 0,
  realServers: 0,
  draining: 0,
  refusedObjects: 0,
  conflicts: 0,
  foreignVirtualServers: 0,
  possiblyOwnedVirtualServers: 0,
  drifts: 0,
  suppressedRepairs: 0,
  manualWeights: 0,
};

/** Counts what there is, once through; yields after each object. `view` undefined: there is nothing yet. */
export function* countsOf(view: ModeView | undefined): Generator<void, Counts> {
  if (view === undefined) return nothing;
  if (view.mode !== "ipvs") {
    const { objects, history } = view;
    const endpoints = yield* countEndpoints(objects);
    const conflicts = history.conflicts.length;
    return { ...nothing, services: objects.serviceCount, endpoints, conflicts };
  }
  const { plan, reconciler, history } = view;
  const endpoints = yield* countEndpoints(plan.tracker);
  const claimed = new Set(history.claimedForeignServers);
  let virtualServers = 0;
  let realServers = 0;
  for (const [key, server] of reconciler.cachedServers) {
    yield;
    if (plan.desired.virtualServer(key) === undefined || claimed.has(key)) continue;
    virtualServers += 1;
    realServers += server.realServers.length;
  }
  return {
    services: plan.tracker.serviceCount,
    endpoints,
    virtualServers,
    realServers,
    draining: reconciler.drainer.count,
    refusedObjects: history.refusals.length,
    conflicts: history.conflicts.length,
    foreignVirtualServers: history.foreignServers.length,
    possiblyOwnedVirtualServers: history.possiblyOwned.length,
    drifts: history.driftCount,
    suppressedRepairs: history.reverted.length,
    manualWeights: history.manualWeights.length,
  };
}

function* countEndpoints(
  objects: Pick<ObjectsView["objects"], "serviceNames" | "slicesOf">,
): Generator<void, number> {
  let endpoints = 0;
  for (const name of objects.serviceNames()) {
    for (const slice of objects.slicesOf(name)) endpoints += slice.endpoints.length;
    yield;
  }
  return endpoints;
}
