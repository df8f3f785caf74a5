import type { Claim } from "./claim.ts";
import type { ClaimedKey } from "./claimed-keys.ts";
import { Claims } from "./claims.ts";

/** A service port's plan in any mode, with the addresses and ports that the plan claims. */
export type ClaimingPlan = Claim["plan"] & {
  readonly claims: readonly ClaimedKey[];
};

export interface PortClaim<P extends ClaimingPlan> extends Claim {
  readonly plan: P;
}

/** All service ports that claim an address and port, by key. */
export class PortClaims<P extends ClaimingPlan> extends Claims<PortClaim<P>> {
  protected override claimsOf(plan: P): readonly (readonly [string, PortClaim<P>])[] {
    return plan.claims.map(({ key, rank }) => [key, { plan, rank }]);
  }
}
