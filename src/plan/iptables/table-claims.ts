import { none } from "../../base/none.ts";
import { type ServicePort, servicePortKey } from "../../model/service-port.ts";
import type { Claim, Holder, Holders, LostClaim, LostTo } from "../claims/claim.ts";
import { Claims } from "../claims/claims.ts";
import type { ServicePortRules } from "./service-port-rules.ts";
import type { SharedRule } from "./shared-chains.ts";

/** One service port's wish for rules about an address and port. */
export interface TableClaim extends Claim {
  readonly plan: ServicePortRules;
}

/** An address and port that several Services claim by equal right, with all of them. */
export interface UndecidedTableClaim {
  readonly key: string;
  readonly claims: readonly TableClaim[];
}

/** Addresses and ports by key, each with every service port that has rules about it; see {@link Claims} for who has it. */
export class TableClaims {
  readonly #claims: Claims<TableClaim>;

  /** `held`: by an earlier run. */
  constructor(held?: Holders) {
    this.#claims = new Claims(held);
  }

  replace(before: ServicePortRules | undefined, after: ServicePortRules | undefined): void {
    const gone = new Set(before?.claims.map(({ key }) => key));
    for (const { key, rank } of after?.claims ?? none) {
      gone.delete(key);
      this.#claims.update(key, { plan: after as ServicePortRules, rank }, before);
    }
    for (const key of gone) this.#claims.update(key, undefined, before);
  }

  /** Whether a service port's rule counts: it is about no address, or about one that the service port has. */
  isWon(plan: ServicePortRules, { claim }: Pick<SharedRule, "claim">): boolean {
    return claim === undefined || this.#claims.winner(claim)?.plan === plan;
  }

  /** Service ports that claim what one of these does, these left out; nearly always none. */
  rivalsOf(plans: readonly ServicePortRules[]): readonly ServicePortRules[] {
    const rivals = new Set<ServicePortRules>();
    for (const { claims } of plans) {
      for (const { key } of claims) for (const { plan } of this.#claims.of(key)) rivals.add(plan);
    }
    for (const plan of plans) rivals.delete(plan);
    return [...rivals];
  }

  /** Everyone who claims it; the first one has it. */
  of(key: string): readonly TableClaim[] {
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
  undecided(): readonly UndecidedTableClaim[] {
    return this.#claims.undecided().map((key) => ({ key, claims: this.of(key) }));
  }

  hold(key: string, holder: Holder): void {
    this.#claims.hold(key, holder);
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
