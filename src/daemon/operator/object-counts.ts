import type { Counts } from "../../answer/answers.ts";
import { type DaemonView, type ModeView, type ObjectsView, objectsOf } from "./daemon-view.ts";

/** Counts all objects in one pass, and yields after each object. `view` is undefined before the kernel is prepared. */
export function* countsOf(
  view: ModeView | undefined,
): Generator<void, Omit<Counts, "invalidObjects">> {
  const objects = view && objectsOf(view);
  const endpoints = objects === undefined ? 0 : yield* countEndpoints(objects);
  const servers = view?.mode === "ipvs" ? yield* countServers(view) : noServers;
  const history = view?.history;
  return {
    services: objects?.serviceCount ?? 0,
    endpoints,
    ...servers,
    rejectedObjects: history?.rejections.length ?? 0,
    conflicts: history?.conflicts.length ?? 0,
    foreignVirtualServers: history?.foreignServers.length ?? 0,
    possiblyOwnedVirtualServers: history?.possiblyOwned.length ?? 0,
    drifts: history?.driftCount ?? 0,
    backingOffRepairs: history?.reverted.length ?? 0,
    manualWeights: history?.manualWeights.length ?? 0,
    answeredWeights: history?.weightSignals.answered ?? 0,
    unansweredWeights: history?.weightSignals.unanswered ?? 0,
    ejectedEndpoints: history?.weightSignals.ejected ?? 0,
    ignoredAnnotations: history?.ignoredAnnotations.length ?? 0,
  };
}

type ServerCounts = Pick<Counts, "virtualServers" | "realServers" | "draining">;

/** The counts in modes without IPVS. */
const noServers: ServerCounts = { virtualServers: 0, realServers: 0, draining: 0 };

function* countServers({ plan, reconciler, history }: DaemonView): Generator<void, ServerCounts> {
  const claimed = new Set(history.claimedForeignServers);
  let virtualServers = 0;
  let realServers = 0;
  for (const [key, server] of reconciler.cachedServers) {
    yield;
    if (plan.desired.virtualServer(key) === undefined || claimed.has(key)) continue;
    virtualServers += 1;
    realServers += server.realServers.length;
  }
  return { virtualServers, realServers, draining: reconciler.drainer.count };
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
