import type { DesiredView } from "./desired-view.ts";
import type { KnownState, KnownVirtualServer } from "./known-state.ts";

/** A list that is as planned again is the planned one: in memory once, and free to compare. */
export function shareDesired(
  known: KnownState,
  desired: Pick<DesiredView, "virtualServer">,
  keys: readonly string[],
): void {
  for (const key of keys) {
    const server = known.virtualServers.get(key);
    const planned = desired.virtualServer(key);
    if (server !== undefined && planned !== undefined && isMadeOf(server, planned)) {
      known.virtualServers.set(key, planned);
    }
  }
}

/** Whether it consists of the very same objects. */
function isMadeOf(server: KnownVirtualServer, planned: KnownVirtualServer): boolean {
  return (
    server.virtualServer === planned.virtualServer &&
    server.realServers.length === planned.realServers.length &&
    server.realServers.every((realServer, index) => realServer === planned.realServers[index])
  );
}
