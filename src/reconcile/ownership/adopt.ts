import type { Clock } from "../../base/clock.ts";
import type { HostPort } from "../../base/ip.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { realServerKey } from "../../state/real-server.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { SyncGoal } from "../sync-goal.ts";
import { classifyServers } from "./classify.ts";
import type { Ownership } from "./ownership.ts";

/** Classifies the virtual servers that exist at startup. */
export async function adoptServers(
  ownership: Ownership,
  cached: CachedState,
  goal: SyncGoal,
  clock: Clock,
): Promise<void> {
  const { desired, nodeAddresses, ownership: policy } = goal;
  let endpoints: ReadonlySet<HostPort> | undefined;
  const owners = await inSlices(
    clock,
    classifyServers({
      cached,
      recorded: ownership.recorded,
      policy,
      nodeAddresses,
      isClaimed: (key) => desired.virtualServer(key) !== undefined,
      isKnownEndpoint: (key) => {
        endpoints ??= endpointKeys(desired);
        return endpoints.has(key);
      },
    }),
  );
  cached.otherEntries = new Map();
  ownership.adopt(owners);
}

/** Keys of all real servers that Services desire. */
function endpointKeys(desired: DesiredView): ReadonlySet<HostPort> {
  const keys = new Set<HostPort>();
  for (const key of desired.virtualServerKeys()) {
    for (const server of desired.virtualServer(key)?.realServers ?? [])
      keys.add(realServerKey(server));
  }
  return keys;
}
