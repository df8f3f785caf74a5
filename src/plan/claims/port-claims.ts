import type { ServicePort } from "../../model/service-port.ts";
import type { Claim } from "./claim.ts";
import type { ClaimedKey } from "./claimed-keys.ts";
import { Claims } from "./claims.ts";

/** What a service port wants, whatever that is, with the addresses and ports that it is about. */
export interface ClaimingPlan {
  readonly servicePort: ServicePort;
  readonly claims: readonly ClaimedKey[];
}

export interface PortClaim<P extends ClaimingPlan> extends Claim {
  readonly plan: P;
}

/** Addresses and ports by key, each with every service port that claims it. */
export class PortClaims<P extends ClaimingPlan> extends Claims<PortClaim<P>> {
  protected override claimsOf(plan: P): readonly (readonly [string, PortClaim<P>])[] {
    return plan.claims.map(({ key, rank }) => [key, { plan, rank }]);
  }
}
