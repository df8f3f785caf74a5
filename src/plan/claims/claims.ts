import { none } from "../../base/none.ts";
import { type ServicePort, servicePortKey, servicePortName } from "../../model/service-port.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { OwnedReservedAddress } from "../frontends.ts";
import {
  byRight,
  type Claim,
  type ClaimKey,
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

/** An address and port that several Services claim with equal rank, and all claims to it. */
export interface UndecidedClaim<C extends Claim, Key = ServerKey> {
  readonly key: Key;
  readonly claims: readonly C[];
}

/** The owner of an address and port before and after a change. Undefined if there is none. */
export interface WinnerChange<C extends Claim> {
  readonly before: C | undefined;
  readonly after: C | undefined;
}

/**
 * All claims by address and port, the owner's first (see {@link byRight}). The Service that owns an address when
 * {@link settle} is called keeps the address until it gives up its claim, or until a claim of better rank appears. The
 * result does not depend on the order of events between two calls.
 */
export abstract class Claims<C extends Claim, Key extends ClaimKey = ServerKey> {
  readonly #claimsByKey = new Map<Key, readonly C[]>();
  /** Keys with more than one claim. Nearly always empty. */
  readonly #contested = new Set<Key>();
  /** Plans with reserved addresses. Nearly always empty. */
  readonly #withReserved = new Set<C["plan"]>();
  /**
   * Holders that may differ from the current owners. Before the first {@link settle}, these are the holders from an
   * earlier run. Later, they are the former owners of addresses whose owner changed since the last {@link settle}.
   */
  readonly #held: Map<ClaimKey, Holder | undefined>;
  #isSettled = false;
  readonly #ages: ClaimAges;

  /** `held`: the holders in an earlier run. */
  constructor(held: Holders = new Map(), ages: ClaimAges = new ClaimAges()) {
    this.#held = new Map(held);
    this.#ages = ages;
  }

  /** The claim that owns the address and port. */
  winner(key: Key): C | undefined {
    return this.#claimsByKey.get(key)?.[0];
  }

  /** Whether this plan owns the address and port. */
  isWonBy(plan: C["plan"], key: Key): boolean {
    return this.winner(key)?.plan === plan;
  }

  /** All claims to the address and port. The first one owns it. */
  of(key: Key): readonly C[] {
    return this.#claimsByKey.get(key) ?? none;
  }

  keys(): IterableIterator<Key> {
    return this.#claimsByKey.keys();
  }

  lost(): readonly LostClaim[] {
    return [...this.#contested].flatMap((key) => {
      const [winner, ...losers] = this.of(key);
      if (winner === undefined) return [];
      return losers.map((loser) => lostClaim(this.textOf(key), winner, loser));
    });
  }

  /** The claims that stronger ones precede. */
  *losing(): Generator<C> {
    for (const key of this.#contested) yield* this.of(key).slice(1);
  }

  /**
   * The Service that owns the address instead of this service port, and why. Undefined if the service port owns the
   * address or does not claim it.
   */
  lostTo(port: ServicePort, key: Key): LostTo | undefined {
    const claims = this.of(key);
    const [winner] = claims;
    const name = servicePortKey(port);
    const loser = claims.find(({ plan }) => servicePortKey(plan.servicePort) === name);
    if (winner === undefined || loser === undefined || winner === loser) return undefined;
    return { service: winner.plan.servicePort.service, reason: claimReason(winner, loser) };
  }

  /** The reserved addresses of all plans, with the service ports that request them. */
  reserved(): readonly OwnedReservedAddress[] {
    return [...this.#withReserved].flatMap(({ reserved = none, servicePort }) =>
      reserved.map((one) => ({ ...one, servicePort: servicePortName(servicePort) })),
    );
  }

  /** The key's name in reports. */
  protected textOf(key: Key): string {
    return key;
  }

  /** A plan's claims, by key. */
  protected abstract claimsOf(plan: C["plan"]): readonly (readonly [key: Key, claim: C])[];

  /** Replaces `previous` with `next` and reports the owner change for each key that either plan claims. */
  replace(
    previous: C["plan"] | undefined,
    next: C["plan"] | undefined,
    onChange: (key: Key, change: WinnerChange<C>) => void = () => {},
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
    if (previous !== undefined) this.#withReserved.delete(previous);
    if (next?.reserved !== undefined && next.reserved.length > 0) this.#withReserved.add(next);
  }

  /**
   * Removes the claims of the plans `previous` and `claim.plan` to `key`, and adds `claim`. If `claim` is undefined,
   * only removes those of `previous`.
   */
  update(key: Key, claim: C | undefined, previous: C["plan"] | undefined): WinnerChange<C> {
    const before = this.of(key);
    // A plan has only one claim per key, even if its Service has the same address as external IP and load-balancer IP.
    const others = before.filter(({ plan }) => plan !== previous && plan !== claim?.plan);
    if (claim === undefined) return this.#set(key, before, others);
    const better = betterRank(
      this.#withAge(key, claim),
      before.find(({ plan }) => plan === claim.plan),
    );
    // Avoids a spread for the usual single claim, because a spread reserves space for 16 more elements.
    return this.#set(key, before, others.length === 0 ? [better] : [...others, better]);
  }

  /**
   * Addresses without a known holder that several Services claim with equal rank. Always empty after the first
   * {@link settle}.
   */
  undecided(): readonly UndecidedClaim<C, Key>[] {
    return [...this.#contested].flatMap((key): readonly UndecidedClaim<C, Key>[] => {
      const claims = this.of(key);
      const equals = claims.filter(({ rank }) => rank === claims[0]?.rank);
      const isDecided = equals.length < 2 || equals.some((one) => this.#isHolder(key, one));
      return isDecided ? [] : [{ key, claims }];
    });
  }

  /** Records that a Service is already served at this address and port. */
  hold(key: Key, holder: Holder): WinnerChange<C> {
    this.#held.set(key, holder);
    const before = this.of(key);
    return this.#set(key, before, before);
  }

  /** Makes every current owner the holder of its address. */
  settle(): void {
    this.#held.clear();
    this.#isSettled = true;
    this.#ages.settle();
  }

  /** The owners of contested addresses. The record on disk preserves them across a restart. */
  contestedHolders(): Holders {
    const holders = new Map<Key, Holder>();
    for (const key of this.#contested) {
      const winner = this.winner(key);
      if (winner !== undefined) holders.set(key, holderOf(winner));
    }
    return holders;
  }

  /** Adds the claim's age. Claims to cluster IPs and node ports need none, because the API server allocates these. */
  #withAge(key: Key, claim: C): C {
    if (claim.rank <= claimRanks["node-port"]) return claim;
    return { ...claim, seenAtSeconds: this.#ages.note(key, claim.plan.servicePort) };
  }

  #set(key: Key, before: readonly C[], claims: readonly C[]): WinnerChange<C> {
    const holder = this.#holderAt(key, before[0]);
    const after = bestFirst(claims, holder);
    if (after.length === 0) this.#claimsByKey.delete(key);
    else this.#claimsByKey.set(key, after);
    if (after.length > 1) this.#contested.add(key);
    else this.#contested.delete(key);
    if (this.#isSettled && !isOfHolder(after[0], holder)) this.#held.set(key, holder);
    return { before: before[0], after: after[0] };
  }

  #holderAt(key: Key, winner: C | undefined): Holder | undefined {
    if (this.#held.has(key)) return this.#held.get(key);
    return this.#isSettled && winner !== undefined ? holderOf(winner) : undefined;
  }

  #isHolder(key: Key, claim: C): boolean {
    return isHeldBy(claim, this.#holderAt(key, this.winner(key)));
  }
}

/** Moves the best claim to the front. The rest stays unsorted: thousands of Services may claim one address. */
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
