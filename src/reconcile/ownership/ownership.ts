import { sameSet } from "../../base/same-set.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import type { VirtualServer } from "../../state/virtual-server.ts";
import type { Change } from "../change.ts";
import type { CachedState, CachedVirtualServer } from "../observed/cached-state.ts";
import { nothingRecorded, type Owner, type RecordedOwnership } from "./classify.ts";
import { isExcluded, type OwnershipPolicy } from "./policy.ts";
import { isNamedByPort } from "./set-marks.ts";

/**
 * Carries over a restart what the kernel's sets cannot say: which virtual servers are ours although no set names them
 * by address (node ports, excluded networks), and which are a third party's although a set may.
 */
export interface OwnershipRecord {
  /** What an earlier run of this boot left; empty where nothing is recorded. */
  readonly recorded: RecordedOwnership;
  /** Records this in place of everything recorded before. Does not wait, never throws. */
  keep(ownership: RecordedOwnership): void;
  /** Resolves when everything given so far is recorded, or could not be. */
  idle(): Promise<void>;
}

export const noOwnershipRecord: OwnershipRecord = {
  recorded: nothingRecorded,
  keep() {},
  async idle() {},
};

/** Who writes nothing to the kernel knows what was recorded, and records nothing: it may have seen half of another's work. */
export function readOnlyRecord({ recorded }: OwnershipRecord): OwnershipRecord {
  return { ...noOwnershipRecord, recorded };
}

/** Which virtual servers in the kernel are ours. Everything else is a third party's. */
export class Ownership {
  readonly #record: OwnershipRecord;
  readonly #owned = new Set<string>();
  /** Ours, though no set names them by address. */
  readonly #unnamed = new Set<string>();
  /** Kept as they are: a third party's, or nobody's in an excluded network. */
  readonly #foreign = new Set<string>();
  /** Claimed by a Service of ours, and a third party's. */
  #conflicts: ReadonlySet<string> = new Set();
  /**
   * A third party's that nobody claims, and that a start would take for ours: one of our node-port sets names the port, or it
   * is on an address of ours, once someone flushed the sets.
   */
  #mistakable: ReadonlySet<string> = new Set();
  #possiblyOwned: readonly string[] = [];
  /** At first the record knows too much. */
  #isUnkept = true;
  /** What the record says now. */
  #kept: RecordedOwnership;

  constructor(record: OwnershipRecord) {
    this.#record = record;
    this.#kept = record.recorded;
  }

  get recorded(): RecordedOwnership {
    return this.#record.recorded;
  }

  /** Virtual servers that may be ours, for all that is known: kept, and to be named. */
  get possiblyOwned(): readonly string[] {
    return this.#possiblyOwned;
  }

  /** Keys of all virtual servers that are not ours, or in an excluded network and unwanted. */
  get foreign(): ReadonlySet<string> {
    return this.#foreign;
  }

  /** Keys that Services claim and a third party has. */
  get conflicts(): ReadonlySet<string> {
    return this.#conflicts;
  }

  isOwned(key: string): boolean {
    return this.#owned.has(key);
  }

  /** What a start found. */
  adopt(owners: ReadonlyMap<string, Owner>): void {
    for (const [key, owner] of owners) {
      if (owner === "owned") this.#owned.add(key);
      else this.#owned.delete(key);
    }
    const possible = [...owners].filter(([, owner]) => owner === "possibly-owned");
    this.#possiblyOwned = possible.map(([key]) => key);
  }

  /** Before they are sent to the kernel: whatever becomes of a request to create one, what stands there then is ours. */
  noteCreations(changes: readonly Change[]): void {
    for (const change of changes) {
      if (change.kind === "virtual-server-create") this.#owned.add(change.key);
    }
  }

  /** It was not made after all: what stands there, now or later, is a third party's. */
  noteNotCreated(key: string): void {
    this.#owned.delete(key);
  }

  /**
   * Finds out which of these keys Services claim and a third party has; gives those of which that is true no more. With the
   * policy `delete` they become ours, and nothing is a conflict. `keys` undefined: all.
   */
  updateConflicts(
    { desired, cached, policy }: OwnershipView,
    keys: Iterable<string> | undefined,
  ): readonly string[] {
    const conflicts = new Set<string>();
    for (const key of [...(keys ?? cached.virtualServers.keys()), ...this.#conflicts]) {
      const isClaimed = cached.virtualServers.has(key) && desired.virtualServer(key) !== undefined;
      if (isClaimed && policy.foreignVirtualServers === "delete") this.#owned.add(key);
      if (isClaimed && !this.#owned.has(key)) conflicts.add(key);
    }
    const ended = [...this.#conflicts].filter((key) => !conflicts.has(key));
    this.#isUnkept ||= !sameSet(conflicts, this.#conflicts);
    this.#conflicts = conflicts;
    return ended;
  }

  /**
   * Before the first write: adds to the record what the sets will say wrongly, or not at all, once they are written. The
   * entry of a node port names third parties' virtual servers on that port as well; an address that we bind makes all that
   * is on it ours, once its entries are flushed; what is ours in an excluded network stays when its entries go. And takes out
   * what a third party has no more: what is made in its place is ours. `keys` undefined: all.
   */
  async recordAhead(view: OwnershipView, keys: Iterable<string> | undefined): Promise<void> {
    for (const key of keys ?? view.cached.virtualServers.keys()) this.#noteForeign(key, view);
    this.#noteMistakable(view);
    const { owned, foreign } = this.#kept;
    const excluded = [...this.#foreign].filter((key) => this.#owned.has(key) && !owned.has(key));
    const others = [...this.#recordedForeign()].filter((key) => !foreign.has(key));
    const remaining = [...foreign].filter((key) => view.cached.virtualServers.has(key));
    const isSame = remaining.length === foreign.size;
    if (isSame && excluded.length === 0 && others.length === 0) return;
    this.#keep({
      owned: new Set([...owned, ...excluded]),
      foreign: new Set([...remaining, ...others]),
    });
    await this.#record.idle();
  }

  /** After a sync: forgets what is gone, and records what the sets do not say. `keys` undefined: all. */
  update(view: OwnershipView, keys: Iterable<string> | undefined): void {
    const { desired, cached } = view;
    for (const key of keys ?? allKeys(this.#owned, this.#foreign, cached)) {
      const server = cached.virtualServers.get(key);
      if (server === undefined && desired.virtualServer(key) === undefined) this.#owned.delete(key);
      this.#noteForeign(key, view);
      this.#noteNamed(key, server, desired);
    }
    this.#possiblyOwned = this.#possiblyOwned.filter((key) => cached.virtualServers.has(key));
    if (!this.#isUnkept) return;
    this.#isUnkept = false;
    this.#keep({ owned: new Set(this.#unnamed), foreign: new Set(this.#recordedForeign()) });
  }

  #keep(ownership: RecordedOwnership): void {
    this.#kept = ownership;
    this.#record.keep(ownership);
  }

  /** What a start might take for ours, if the record did not name it. */
  *#recordedForeign(): Generator<string> {
    yield* this.#conflicts;
    yield* this.#mistakable;
  }

  #noteForeign(key: string, { desired, cached, policy }: OwnershipView): void {
    const server = cached.virtualServers.get(key);
    const isKept = server !== undefined && desired.virtualServer(key) === undefined;
    const isOurs = policy.foreignVirtualServers === "delete" || this.#owned.has(key);
    const isForeign = isKept && (!isOurs || isExcluded(server.virtualServer, policy));
    if (isForeign) this.#foreign.add(key);
    else this.#foreign.delete(key);
  }

  /** All of them each time: a Service with a node port says nothing of node addresses that do not serve it. */
  #noteMistakable({ desired, cached }: OwnershipView): void {
    const possiblyOwned = new Set(this.#possiblyOwned);
    const isMistakable = (key: string): boolean => {
      const server = cached.virtualServers.get(key)?.virtualServer;
      if (server === undefined || this.#owned.has(key)) return false;
      if (isNamedByPort(server, desired)) return true;
      return desired.hasAddress(server.address) && !possiblyOwned.has(key);
    };
    const foreign = new Set([...this.#foreign].filter(isMistakable));
    this.#isUnkept ||= !sameSet(foreign, this.#mistakable);
    this.#mistakable = foreign;
  }

  #noteNamed(key: string, server: CachedVirtualServer | undefined, desired: DesiredView): void {
    const isUnnamed =
      server !== undefined && this.#owned.has(key) && !isTraced(key, server.virtualServer, desired);
    if (isUnnamed === this.#unnamed.has(key)) return;
    this.#isUnkept = true;
    if (isUnnamed) this.#unnamed.add(key);
    else this.#unnamed.delete(key);
  }
}

/** A set names it by address, and the address is on kube-ipvs0: what a flush of the one leaves, the other shows. */
function isTraced(key: string, { address }: VirtualServer, desired: DesiredView): boolean {
  return desired.virtualServer(key) !== undefined && desired.hasAddress(address);
}

/** What ownership is judged by. `desired`: once they are known, without conflicts. */
export interface OwnershipView {
  readonly desired: DesiredView;
  readonly cached: CachedState;
  readonly policy: OwnershipPolicy;
}

/** Some more than once, which does no harm. No copy is made: they are tens of thousands. */
function* allKeys(
  owned: ReadonlySet<string>,
  foreign: ReadonlySet<string>,
  { virtualServers }: CachedState,
): Generator<string> {
  yield* owned;
  yield* foreign;
  yield* virtualServers.keys();
}
