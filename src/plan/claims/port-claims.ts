import { none } from "../../base/none.ts";
import { type ServicePort, servicePortKey } from "../../model/service-port.ts";
import type { Claim, Holder, Holders, LostClaim, LostTo } from "./claim.ts";
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

/** An address and port that several Services claim by equal right, with all of them. */
export interface UndecidedClaim<P extends ClaimingPlan> {
  readonly key: string;
  readonly claims: readonly PortClaim<P>[];
}

/** Addresses and ports by key, each with every service port that claims it; see {@link Claims} for who has it. */
export class PortClaims<P extends ClaimingPlan> {
  readonly #claims: Claims<PortClaim<P>>;

  /** `held`: by an earlier run. */
  constructor(held?: Holders) {
    this.#claims = new Claims(held);
  }

  /** Puts `after` in the place of `before` and reports what became of each key that either claims. */
  replace(
    before: P | undefined,
    after: P | undefined,
    onChange: (key: string, change: WinnerChange<PortClaim<P>>) => void = () => {},
  ): void {
    const gone = new Set(before?.claims.map(({ key }) => key));
    for (const { key, rank } of after?.claims ?? none) {
      gone.delete(key);
      onChange(key, this.#claims.update(key, { plan: after as P, rank }, before));
    }
    for (const key of gone) onChange(key, this.#claims.update(key, undefined, before));
  }

  /** Whether this plan has it. */
  isWonBy(plan: P, key: string): boolean {
    return this.#claims.winner(key)?.plan === plan;
  }

  /** Everyone who claims it; the first one has it. */
  of(key: string): readonly PortClaim<P>[] {
    return this.#claims.of(key);
  }

  lost(): readonly LostClaim[] {
    return this.#claims.lost();
  }

  /** Who has an address and port in place of this service port, and why; undefined: it has it, or does not ask for it. */
  lostTo(port: ServicePort, key: string): LostTo | undefined {
    const name = servicePortKey(port);
    return this.#claims.lostTo(key, ({ plan }) => servicePortKey(plan.servicePort) === name);
  }

  /** See {@link Claims.undecided}. */
  undecided(): readonly UndecidedClaim<P>[] {
    return this.#claims.undecided().map((key) => ({ key, claims: this.of(key) }));
  }

  hold(key: string, holder: Holder): WinnerChange<PortClaim<P>> {
    return this.#claims.hold(key, holder);
  }

  /** From now on everyone holds what it has. */
  settle(): void {
    this.#claims.settle();
  }

  /** Who has what several Services claim: what a record has to carry over a restart. */
  contestedHolders(): Holders {
    return this.#claims.contested();
  }
}
