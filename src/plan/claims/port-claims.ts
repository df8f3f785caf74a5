import type { ServerKey } from "../../state/virtual-server.ts";
import type { Claim, ClaimKey } from "./claim.ts";
import type { ClaimedKey } from "./claimed-keys.ts";
import { Claims } from "./claims.ts";

/** A service port's plan in any mode, with the addresses and ports that the plan claims. */
export type ClaimingPlan<Key = ServerKey> = Claim["plan"] & {
  readonly claims: readonly ClaimedKey<Key>[];
};

export interface PortClaim<P extends Claim["plan"]> extends Claim {
  readonly plan: P;
}

/** All service ports that claim an address and port, by key. */
export class PortClaims<
  P extends ClaimingPlan<Key>,
  Key extends ClaimKey = ServerKey,
> extends Claims<PortClaim<P>, Key> {
  protected override claimsOf(plan: P): readonly (readonly [Key, PortClaim<P>])[] {
    return plan.claims.map(({ key, rank }) => [key, { plan, rank }]);
  }
}
