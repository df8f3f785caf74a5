import { none } from "../../base/none.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { Claim } from "./claim.ts";
import type { ClaimedKey } from "./claimed-keys.ts";
import { Claims, type WinnerChange } from "./claims.ts";

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
  /** Puts `after` in the place of `before` and reports what became of each key that either claims. */
  replace(
    before: P | undefined,
    after: P | undefined,
    onChange: (key: string, change: WinnerChange<PortClaim<P>>) => void = () => {},
  ): void {
    const gone = new Set(before?.claims.map(({ key }) => key));
    for (const { key, rank } of after?.claims ?? none) {
      gone.delete(key);
      onChange(key, this.update(key, { plan: after as P, rank }, before));
    }
    for (const key of gone) onChange(key, this.update(key, undefined, before));
  }
}
