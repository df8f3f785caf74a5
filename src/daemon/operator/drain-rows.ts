/** Rows for draining real servers, oldest first, with their remaining connections. */

import type { DrainRow, DrainTimes } from "../../answer/rows.ts";
import type { HostPort } from "../../base/ip.ts";
import { type Drain, mayBeUdp, protocolOf } from "../../reconcile/drain/drains.ts";
import { type ObservedRealServer, realServerKey } from "../../state/real-server.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import { toTenth } from "./ages.ts";
import type { DaemonView } from "./daemon-view.ts";
import { namesOf } from "./row-fields.ts";

/**
 * Number of drains whose connections are read together. If one virtual server has thousands of drains, it is read once
 * for each group of this size.
 */
const drainsPerRead = 500;

/** `unsorted` defaults to the daemon's own drains. Rejects if the kernel cannot be read. */
export async function* drainRows(
  view: DaemonView,
  unsorted: Iterable<Drain> = view.reconciler.drainer.drains.all(),
): AsyncGenerator<DrainRow> {
  const drains = [...unsorted].sort((one, other) => one.sinceMs - other.sinceMs);
  for (let index = 0; index < drains.length; index += drainsPerRead) {
    const group = drains.slice(index, index + drainsPerRead);
    const observed = await readServers(group, view);
    for (const drain of group) {
      const server = observed.get(drain.virtualServerKey)?.get(realServerKey(drain.realServer));
      // The real server may have been removed just now.
      if (server !== undefined) yield rowOf(drain, server, view);
    }
  }
}

/** Real servers by the key of their virtual server, then by their own key. */
async function readServers(
  drains: readonly Drain[],
  { ipvs }: DaemonView,
): Promise<ReadonlyMap<ServerKey, ReadonlyMap<HostPort, ObservedRealServer>>> {
  const ids = new Map(drains.map((drain) => [drain.virtualServerKey, drain.virtualServer]));
  const lists = await ipvs.listRealServers([...ids.values()]);
  return new Map(
    [...ids.keys()].map((key, index) => [
      key,
      new Map(lists[index]?.map((server) => [realServerKey(server), server])),
    ]),
  );
}

function rowOf(drain: Drain, server: ObservedRealServer, view: DaemonView): DrainRow {
  const { virtualServer, virtualServerKey } = drain;
  const [service] = view.plan.desired.servicesOfServer(virtualServerKey);
  return {
    ...(service === undefined ? {} : namesOf(service)),
    protocol: virtualServer.protocol,
    address: virtualServer.address,
    port: virtualServer.port,
    realServer: { address: server.address, port: server.port },
    ...drainTimes(drain, view),
    activeConnections: server.activeConnections,
    inactiveConnections: server.inactiveConnections,
  };
}

type TimesView = Pick<DaemonView, "clock" | "config" | "plan">;

/** Age and remaining time of a drain. */
export function drainTimes(
  drain: Drain,
  { clock, config: { drain: policy }, plan: { desired } }: TimesView,
): DrainTimes {
  const ageSeconds = Math.max(0, (clock.monotonicMs() - drain.sinceMs) / 1000);
  const planned = desired.virtualServer(drain.virtualServerKey);
  const isUdp = mayBeUdp(protocolOf(drain.virtualServer, planned));
  const limit = isUdp ? policy.udpDeadlineSeconds : policy.tcpDeadlineSeconds;
  if (limit === 0) return { ageSeconds: toTenth(ageSeconds) };
  const leftSeconds = Math.max(0, limit - ageSeconds);
  return { ageSeconds: toTenth(ageSeconds), deadlineInSeconds: toTenth(leftSeconds) };
}
