import { sameRealServers } from "../../state/real-server.ts";
import { servedRangeText } from "../../state/served-range.ts";
import { type ServerKey, sameVirtualServer, virtualServerKey } from "../../state/virtual-server.ts";
import type { PlannedVirtualServer, ServicePortPlan } from "../service-port-plan.ts";
import { type Claim, claimRanks } from "./claim.ts";
import { Claims, type WinnerChange } from "./claims.ts";

/** One service port's claim to a virtual server. */
export interface ServerClaim extends Claim {
  readonly plan: ServicePortPlan;
  readonly planned: PlannedVirtualServer;
}

/** All claims to virtual servers, by key. */
export class ServerClaims extends Claims<ServerClaim> {
  /** Names port ranges by their address and ports, because their keys contain only a mark. */
  protected override textOf(key: ServerKey): string {
    const range = this.winner(key)?.planned.range;
    return range === undefined ? key : servedRangeText(range);
  }

  protected override claimsOf(
    plan: ServicePortPlan,
  ): readonly (readonly [ServerKey, ServerClaim])[] {
    return plan.virtualServers.map((planned) => {
      const claim = { plan, planned, rank: claimRanks[planned.kind] };
      return [virtualServerKey(planned.virtualServer), claim];
    });
  }
}

/** Whether the planned virtual server is the same before and after the change. */
export function isSamePlanned({ before, after }: WinnerChange<ServerClaim>): boolean {
  const [left, right] = [before?.planned, after?.planned];
  if (left === undefined || right === undefined) return left === right;
  if (!sameVirtualServer(left.virtualServer, right.virtualServer)) return false;
  return sameRealServers(left.realServers, right.realServers);
}
