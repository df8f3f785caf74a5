import { sameSet } from "../../base/same-set.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import type { ServerKey, VirtualServer } from "../../state/virtual-server.ts";
import type { Change } from "../change.ts";
import type { CachedState, CachedVirtualServer } from "../observed/cached-state.ts";
import { nothingRecorded, type Owner, type RecordedOwnership } from "./classify.ts";
import { isExcluded, type OwnershipPolicy } from "./policy.ts";
import { isNamedByAddress, isNamedByPort } from "./set-marks.ts";

/**
 * Preserves facts about virtual servers across a restart: which ones are ours although no set identifies them by
 * address (node ports, excluded networks), and which ones are foreign although a set seems to identify them as ours.
 */
export interface OwnershipRecord {
  /** The record left by an earlier run since the node booted. Empty if there is none. */
  readonly recorded: RecordedOwnership;
  /** Replaces the record. Does not wait and never throws. */
  keep(ownership: RecordedOwnership): void;
  /** Resolves when everything passed to `keep` so far has been recorded or could not be recorded. */
  idle(): Promise<void>;
}

export const noOwnershipRecord: OwnershipRecord = {
  recorded: nothingRecorded,
  keep() {},
  async idle() {},
};

/**
 * A record for code that does not write to the kernel. It returns the recorded ownership but records nothing, because
 * the kernel state that this code sees may be an unfinished write of another process.
 */
export function readOnlyRecord({ recorded }: OwnershipRecord): OwnershipRecord {
  return { ...noOwnershipRecord, recorded };
}

/** Tracks which virtual servers in the kernel are ours. All others belong to third parties. */
export class Ownership {
  readonly #record: OwnershipRecord;
  readonly #owned = new Set<ServerKey>();
  /** Our virtual servers that no set identifies by address. */
  readonly #unnamed = new Set<ServerKey>();
  /** Virtual servers that are never changed: those of third parties, and undesired ones in an excluded network. */
  readonly #foreign = new Set<ServerKey>();
  /** Foreign virtual servers that a Service also requests. */
  #conflicts: ReadonlySet<ServerKey> = new Set();
  /**
   * Foreign virtual servers that no Service requests but that would be mistaken for ours after a restart. Either one of
   * our node port sets contains the port, or the virtual server has one of our addresses and other software may flush
   * the sets.
   */
  #mistakable: ReadonlySet<ServerKey> = new Set();
  #possiblyOwned: readonly ServerKey[] = [];
  /** Whether the record is outdated. True at first, because it may contain virtual servers that no longer exist. */
  #hasUnsavedChanges = true;
  /** The current contents of the record. */
  #kept: RecordedOwnership;

  constructor(record: OwnershipRecord) {
    this.#record = record;
    this.#kept = record.recorded;
  }

  get recorded(): RecordedOwnership {
    return this.#record.recorded;
  }

  /** Virtual servers that may be ours. They are kept and reported. */
  get possiblyOwned(): readonly ServerKey[] {
    return this.#possiblyOwned;
  }

  /** Keys of all virtual servers that are not ours, and of undesired ones in an excluded network. */
  get foreign(): ReadonlySet<ServerKey> {
    return this.#foreign;
  }

  /** Keys of foreign virtual servers that Services also request. */
  get conflicts(): ReadonlySet<ServerKey> {
    return this.#conflicts;
  }

  isOwned(key: ServerKey): boolean {
    return this.#owned.has(key);
  }

  /** Adopts the classification made at startup. */
  adopt(owners: ReadonlyMap<ServerKey, Owner>): void {
    for (const [key, owner] of owners) {
      if (owner === "owned") this.#owned.add(key);
      else this.#owned.delete(key);
    }
    const possible = [...owners].filter(([, owner]) => owner === "possibly-owned");
    this.#possiblyOwned = possible.map(([key]) => key);
  }

  /**
   * Called before creations are sent to the kernel. If a virtual server in `changes` exists afterwards, it is ours,
   * whatever the outcome of the request.
   */
  noteCreations(changes: readonly Change[]): void {
    for (const change of changes) {
      if (change.kind === "virtual-server-create") this.#owned.add(change.key);
    }
  }

  /** Called if the creation failed. If the virtual server exists now or later, a third party created it. */
  noteNotCreated(key: ServerKey): void {
    this.#owned.delete(key);
  }

  /**
   * Finds the foreign virtual servers among `keys` that a Service also requests. Returns the keys of conflicts that
   * have ended. With the policy `delete`, these virtual servers become ours, so there are no conflicts. If `keys` is
   * undefined, checks all virtual servers.
   */
  updateConflicts(
    { desired, cached, policy }: OwnershipView,
    keys: Iterable<ServerKey> | undefined,
  ): readonly ServerKey[] {
    const conflicts = new Set<ServerKey>();
    for (const key of [...(keys ?? cached.virtualServers.keys()), ...this.#conflicts]) {
      const isClaimed = cached.virtualServers.has(key) && desired.virtualServer(key) !== undefined;
      if (isClaimed && policy.foreignVirtualServers === "delete") this.#owned.add(key);
      if (isClaimed && !this.#owned.has(key)) conflicts.add(key);
    }
    const ended = [...this.#conflicts].filter((key) => !conflicts.has(key));
    this.#hasUnsavedChanges ||= !sameSet(conflicts, this.#conflicts);
    this.#conflicts = conflicts;
    return ended;
  }

  /**
   * Called before the first write. Records the virtual servers that the sets will not identify correctly after this
   * sync:
   *
   * - A node port's entry also matches foreign virtual servers on that port.
   * - After the sets are flushed, everything on an address that we bind would be mistaken for ours.
   * - Our virtual servers in an excluded network remain when their entries are removed.
   *
   * Also forgets foreign virtual servers that no longer exist, because virtual servers created in their place will be
   * ours. If `keys` is undefined, checks all virtual servers.
   */
  async recordAhead(view: OwnershipView, keys: Iterable<ServerKey> | undefined): Promise<void> {
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

  /**
   * Called after a sync. Forgets virtual servers that no longer exist, and records what the sets do not show. If
   * `keys` is undefined, checks all virtual servers.
   */
  update(view: OwnershipView, keys: Iterable<ServerKey> | undefined): void {
    const { desired, cached } = view;
    for (const key of keys ?? allKeys(this.#owned, this.#foreign, cached)) {
      const server = cached.virtualServers.get(key);
      if (server === undefined && desired.virtualServer(key) === undefined) this.#owned.delete(key);
      this.#noteForeign(key, view);
      this.#noteNamed(key, server, desired);
    }
    this.#possiblyOwned = this.#possiblyOwned.filter((key) => cached.virtualServers.has(key));
    if (!this.#hasUnsavedChanges) return;
    this.#hasUnsavedChanges = false;
    this.#keep({ owned: new Set(this.#unnamed), foreign: new Set(this.#recordedForeign()) });
  }

  #keep(ownership: RecordedOwnership): void {
    this.#kept = ownership;
    this.#record.keep(ownership);
  }

  /** Foreign virtual servers that a restart would mistake for ours if they were not in the record. */
  *#recordedForeign(): Generator<ServerKey> {
    yield* this.#conflicts;
    yield* this.#mistakable;
  }

  #noteForeign(key: ServerKey, { desired, cached, policy }: OwnershipView): void {
    const server = cached.virtualServers.get(key);
    const isKept = server !== undefined && desired.virtualServer(key) === undefined;
    const isOurs = policy.foreignVirtualServers === "delete" || this.#owned.has(key);
    const isForeign = isKept && (!isOurs || isExcluded(server.virtualServer, policy));
    if (isForeign) this.#foreign.add(key);
    else this.#foreign.delete(key);
  }

  /**
   * Finds the mistakable virtual servers. Always checks all foreign virtual servers, because a Service with a node port
   * does not list the node addresses that do not serve it.
   */
  #noteMistakable({ desired, cached }: OwnershipView): void {
    const possiblyOwned = new Set(this.#possiblyOwned);
    const isMistakable = (key: ServerKey): boolean => {
      const server = cached.virtualServers.get(key)?.virtualServer;
      if (server === undefined || this.#owned.has(key)) return false;
      if (isNamedByPort(server, desired)) return true;
      return desired.hasAddress(server.address) && !possiblyOwned.has(key);
    };
    const foreign = new Set([...this.#foreign].filter(isMistakable));
    this.#hasUnsavedChanges ||= !sameSet(foreign, this.#mistakable);
    this.#mistakable = foreign;
  }

  #noteNamed(key: ServerKey, server: CachedVirtualServer | undefined, desired: DesiredView): void {
    const isUnnamed =
      server !== undefined && this.#owned.has(key) && !isTraced(server.virtualServer, desired);
    if (isUnnamed === this.#unnamed.has(key)) return;
    this.#hasUnsavedChanges = true;
    if (isUnnamed) this.#unnamed.add(key);
    else this.#unnamed.delete(key);
  }
}

/**
 * Whether two traces identify the virtual server as ours: a set identifies it by address, and the address is on
 * kube-ipvs0. If other software removes one trace, the other remains. A firewall mark is sufficient alone. A node port
 * has no such traces, even on a node address that is also a cluster IP.
 */
function isTraced(server: VirtualServer, desired: DesiredView): boolean {
  if (server.protocol === "FWM") return true;
  return desired.hasAddress(server.address) && isNamedByAddress(server, desired);
}

/** The state that ownership depends on. Once conflicts are known, `desired` excludes them. */
export interface OwnershipView {
  readonly desired: DesiredView;
  readonly cached: CachedState;
  readonly policy: OwnershipPolicy;
}

/** Yields some keys more than once, which is harmless and avoids copying tens of thousands of keys. */
function* allKeys(
  owned: ReadonlySet<ServerKey>,
  foreign: ReadonlySet<ServerKey>,
  { virtualServers }: CachedState,
): Generator<ServerKey> {
  yield* owned;
  yield* foreign;
  yield* virtualServers.keys();
}
