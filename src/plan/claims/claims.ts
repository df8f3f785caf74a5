import { none } from "../../base/none.ts";
import { type ServicePort, servicePortKey } from "../../model/service-port.ts";
import {
  byRight,
  type Claim,
  claimRanks,
  claimReason,
  type Holder,
  type Holders,
  holderOf,
  isHeldBy,
  type LostClaim,
  type LostTo,
  lostClaim,
} from "./claim.ts";
import { ClaimAges } from "./claim-ages.ts";

/** An address and port that several Services claim by equal right, with all of them. */
export interface UndecidedClaim<C extends Claim> {
  readonly key: string;
  readonly claims: readonly C[];
}

/** Who has an address and port before and after a change; undefined: nobody. */
export interface WinnerChange<C extends Claim> {
  readonly before: C | undefined;
  readonly after: C | undefined;
}

/**
 * Addresses and ports by key, each with everyone who claims it, the one who has it first: see {@link byRight}. Who has one
 * when {@link settle} is called holds it from then on, until it gives up its claim, or one of a better rank comes. Events
 * between two such calls decide alike in any order.
 */
export abstract class Claims<C extends Claim> {
  readonly #claimsByKey = new Map<string, readonly C[]>();
  /** Keys with more than one claim; nearly always empty. */
  readonly #contested = new Set<string>();
  /** Holders where that is not who has it now: of an earlier run; then of what changed hands since the last settle. */
  readonly #held: Map<string, Holder | undefined>;
  #isSettled = false;
  readonly #ages: ClaimAges;

  /** `held`: by an earlier run. */
  constructor(held: Holders = new Map(), ages: ClaimAges = new ClaimAges()) {
    this.#held = new Map(held);
    this.#ages = ages;
  }

  /** The one who has it. */
  winner(key: string): C | undefined {
    return this.#claimsByKey.get(key)?.[0];
  }

  /** Whether this plan has it. */
  isWonBy(plan: C["plan"], key: string): boolean {
    return this.winner(key)?.plan === plan;
  }

  /** Everyone who claims it; the first one has it. */
  of(key: string): readonly C[] {
    return this.#claimsByKey.get(key) ?? none;
  }

  keys(): IterableIterator<string> {
    return this.#claimsByKey.keys();
  }

  lost(): readonly LostClaim[] {
    return [...this.#contested].flatMap((key) => {
      const [winner, ...losers] = this.of(key);
      if (winner === undefined) return [];
      return losers.map((loser) => lostClaim(key, winner, loser));
    });
  }

  /** Who has it in place of this service port, and why; undefined: it has it, or does not claim it. */
  lostTo(port: ServicePort, key: string): LostTo | undefined {
    const claims = this.of(key);
    const [winner] = claims;
    const name = servicePortKey(port);
    const loser = claims.find(({ plan }) => servicePortKey(plan.servicePort) === name);
    if (winner === undefined || loser === undefined || winner === loser) return undefined;
    return { service: winner.plan.servicePort.service, reason: claimReason(winner, loser) };
  }

  /** What a plan claims, by key. */
  protected abstract claimsOf(plan: C["plan"]): readonly (readonly [key: string, claim: C])[];

  /** Puts `next` in the place of `previous` and reports what became of each key that either claims. */
  replace(
    previous: C["plan"] | undefined,
    next: C["plan"] | undefined,
    onChange: (key: string, change: WinnerChange<C>) => void = () => {},
  ): void {
    const gone = new Set(previous && this.claimsOf(previous).map(([key]) => key));
    for (const [key, claim] of next === undefined ? none : this.claimsOf(next)) {
      gone.delete(key);
      onChange(key, this.update(key, claim, previous));
    }
    for (const key of gone) {
      if (previous !== undefined) this.#ages.forget(key, previous.servicePort);
      onChange(key, this.update(key, undefined, previous));
    }
  }

  /** Puts `claim` in the place of what `previous` and its own plan claimed; undefined: takes that away. */
  update(key: string, claim: C | undefined, previous: C["plan"] | undefined): WinnerChange<C> {
    const before = this.of(key);
    // An external IP may also be a load-balancer IP of the same Service: one plan claims a key once.
    const others = before.filter(({ plan }) => plan !== previous && plan !== claim?.plan);
    if (claim === undefined) return this.#set(key, before, others);
    const better = betterRank(
      this.#withAge(key, claim),
      before.find(({ plan }) => plan === claim.plan),
    );
    // Nearly always one alone: a list that is spread has room for sixteen more.
    return this.#set(key, before, others.length === 0 ? [better] : [...others, better]);
  }

  /** Addresses that several claim by equal rank, of whom nobody is known to hold it. Of no use once anything is settled. */
  undecided(): readonly UndecidedClaim<C>[] {
    return [...this.#contested].flatMap((key): readonly UndecidedClaim<C>[] => {
      const claims = this.of(key);
      const equals = claims.filter(({ rank }) => rank === claims[0]?.rank);
      const isDecided = equals.length < 2 || equals.some((one) => this.#isHolder(key, one));
      return isDecided ? [] : [{ key, claims }];
    });
  }

  /** A Service turns out to be served there already. */
  hold(key: string, holder: Holder): WinnerChange<C> {
    this.#held.set(key, holder);
    const before = this.of(key);
    return this.#set(key, before, before);
  }

  /** From now on everyone holds what it has. */
  settle(): void {
    this.#held.clear();
    this.#isSettled = true;
    this.#ages.settle();
  }

  /** Who has what several claim: what a record has to carry over a restart. */
  contestedHolders(): Holders {
    const holders = new Map<string, Holder>();
    for (const key of this.#contested) {
      const winner = this.winner(key);
      if (winner !== undefined) holders.set(key, holderOf(winner));
    }
    return holders;
  }

  /** The API server gives out the others. */
  #withAge(key: string, claim: C): C {
    if (claim.rank <= claimRanks["node-port"]) return claim;
    return { ...claim, seenAtSeconds: this.#ages.note(key, claim.plan.servicePort) };
  }

  #set(key: string, before: readonly C[], claims: readonly C[]): WinnerChange<C> {
    const holder = this.#holderAt(key, before[0]);
    const after = bestFirst(claims, holder);
    if (after.length === 0) this.#claimsByKey.delete(key);
    else this.#claimsByKey.set(key, after);
    if (after.length > 1) this.#contested.add(key);
    else this.#contested.delete(key);
    if (this.#isSettled && !isOfHolder(after[0], holder)) this.#held.set(key, holder);
    return { before: before[0], after: after[0] };
  }

  #holderAt(key: string, winner: C | undefined): Holder | undefined {
    if (this.#held.has(key)) return this.#held.get(key);
    return this.#isSettled && winner !== undefined ? holderOf(winner) : undefined;
  }

  #isHolder(key: string, claim: C): boolean {
    return isHeldBy(claim, this.#holderAt(key, this.winner(key)));
  }
}

/** The others stand in no order: anybody may make thousands of Services that claim one address. */
function bestFirst<C extends Claim>(
  claims: readonly C[],
  holder: Holder | undefined,
): readonly C[] {
  const [first] = claims;
  if (first === undefined || claims.length === 1) return claims;
  let best = 0;
  for (const [index, claim] of claims.entries()) {
    if (byRight(claim, claims[best] as C, holder) < 0) best = index;
  }
  if (best === 0) return claims;
  return claims.with(0, claims[best] as C).with(best, first);
}

function betterRank<C extends Claim>(claim: C, same: C | undefined): C {
  return same === undefined || same.rank >= claim.rank ? claim : { ...claim, rank: same.rank };
}

function isOfHolder(winner: Claim | undefined, holder: Holder | undefined): boolean {
  return winner !== undefined && isHeldBy(winner, holder);
}
