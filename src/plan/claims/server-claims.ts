import { none } from "../../base/none.ts";
import { sameRealServers } from "../../state/real-server.ts";
import { sameVirtualServer, virtualServerKey } from "../../state/virtual-server.ts";
import type { PlannedVirtualServer, ServicePortPlan } from "../service-port-plan.ts";
import { type Claim, claimRanks } from "./claim.ts";
import { Claims, type WinnerChange } from "./claims.ts";

/** One service port's wish for a virtual server. */
export interface ServerClaim extends Claim {
  readonly plan: ServicePortPlan;
  readonly planned: PlannedVirtualServer;
}

/** Virtual servers by key, each with everyone who claims it. */
export class ServerClaims extends Claims<ServerClaim> {
  /** Puts `next` in the place of `previous` and reports what became of each key that either claims. */
  replace(
    previous: ServicePortPlan | undefined,
    next: ServicePortPlan | undefined,
    onChange: (key: string, change: WinnerChange<ServerClaim>) => void,
  ): void {
    const before = new Set(previous?.virtualServers.map(keyOf));
    for (const planned of next?.virtualServers ?? none) {
      const key = keyOf(planned);
      before.delete(key);
      const rank = claimRanks[planned.kind];
      const claim = { plan: next as ServicePortPlan, planned, rank };
      onChange(key, this.update(key, claim, previous));
    }
    for (const key of before) onChange(key, this.update(key, undefined, previous));
  }
}

function keyOf(planned: PlannedVirtualServer): string {
  return virtualServerKey(planned.virtualServer);
}

/** Whether the virtual server is to be the same before and after. */
export function isSamePlanned({ before, after }: WinnerChange<ServerClaim>): boolean {
  const [left, right] = [before?.planned, after?.planned];
  if (left === undefined || right === undefined) return left === right;
  if (!sameVirtualServer(left.virtualServer, right.virtualServer)) return false;
  return sameRealServers(left.realServers, right.realServers);
}
