import { sameRealServers } from "../../state/real-server.ts";
import { servedRangeText } from "../../state/served-range.ts";
import { type ServerKey, sameVirtualServer, virtualServerKey } from "../../state/virtual-server.ts";
import type { PlannedVirtualServer, ServicePortPlan } from "../service-port-plan.ts";
import { type Claim, claimRanks } from "./claim.ts";
import { claimsOf } from "./claimed-keys.ts";
import { Claims, type WinnerChange } from "./claims.ts";

/** One service port's claim to a virtual server. */
export interface ServerClaim extends Claim {
  readonly plan: ServicePortPlan;
  /** Undefined if the virtual server of the Service's own port range serves the address and port. */
  readonly planned: PlannedVirtualServer | undefined;
}

/** All claims to virtual servers, by key. */
export class ServerClaims extends Claims<ServerClaim> {
  /** Names port ranges by their address and ports, because their keys contain only a mark. */
  protected override textOf(key: ServerKey): string {
    const range = this.winner(key)?.planned?.range;
    return range === undefined ? key : servedRangeText(range);
  }

  protected override claimsOf(
    plan: ServicePortPlan,
  ): readonly (readonly [ServerKey, ServerClaim])[] {
    const covered = claimsOf(plan.servicePort, plan.covered).map(
      ({ key, rank }): readonly [ServerKey, ServerClaim] => [
        key,
        { plan, planned: undefined, rank },
      ],
    );
    const served = plan.virtualServers.map((planned): readonly [ServerKey, ServerClaim] => {
      const claim = { plan, planned, rank: claimRanks[planned.kind] };
      return [virtualServerKey(planned.virtualServer), claim];
    });
    return covered.length === 0 ? served : [...served, ...covered];
  }
}

/** Whether the planned virtual server is the same before and after the change. */
export function isSamePlanned({ before, after }: WinnerChange<ServerClaim>): boolean {
  const [left, right] = [before?.planned, after?.planned];
  if (left === undefined || right === undefined) return left === right;
  if (!sameVirtualServer(left.virtualServer, right.virtualServer)) return false;
  return sameRealServers(left.realServers, right.realServers);
}
