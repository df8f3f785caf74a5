import {
  type ServerKey,
  type VirtualServer,
  virtualServerKey,
} from "../../state/virtual-server.ts";
import type { Outcomes } from "../apply/outcome.ts";
import { contradictsCache } from "../apply/refusal-reason.ts";
import type { Change } from "../change.ts";
import { kindOf } from "../kinds/kinds.ts";
import type { Failure } from "../report.ts";
import type { Scope } from "../scope.ts";
import type { SyncGoal } from "../sync-goal.ts";
import {
  type ObservationGoal,
  type ObservedPart,
  type Observer,
  observedParts,
} from "./observer.ts";
import type { Verification } from "./verification.ts";

/** Tracks which parts of the cache are valid, and observes invalid parts again. */
export class Freshness {
  readonly #observer: Observer;
  readonly #verification: Verification;
  /** Parts that must be observed completely, because their state is unknown. */
  readonly #stale: Set<ObservedPart>;
  readonly #parts: readonly ObservedPart[];
  /** Parts that must be checked, because an error contradicted the cache. */
  readonly #suspect = new Set<ObservedPart>();
  readonly #suspectServers = new Set<ServerKey>();
  /** Whether requests with an unknown outcome may have changed virtual or real servers. */
  #hasUnknownWrites = false;
  /** Whether the last refresh listed all virtual servers. */
  #hasListedServers = false;

  /** `parts` are the only parts that are read. */
  constructor(
    observer: Observer,
    verification: Verification,
    parts: readonly ObservedPart[] = observedParts,
  ) {
    this.#observer = observer;
    this.#verification = verification;
    this.#parts = parts;
    this.#stale = new Set(parts);
  }

  /** Whether the state of any part is unknown. */
  get isStale(): boolean {
    return this.#stale.size > 0;
  }

  invalidate(): void {
    for (const part of this.#parts) this.#stale.add(part);
  }

  /** Marks the parts that requests with an unknown outcome may have changed. */
  noteUnknown({ unknown }: Pick<Outcomes, "unknown">): void {
    for (const { part } of unknown) if (part !== undefined) this.#stale.add(part);
    this.#hasUnknownWrites ||= unknown.some(({ part }) => part === "servers");
  }

  /**
   * Returns whether our own writes may have caused differences of virtual or real servers, and resets this flag. Called
   * after an observation.
   */
  takeUnknownWrites(): boolean {
    const hadUnknownWrites = this.#hasUnknownWrites;
    this.#hasUnknownWrites = false;
    return hadUnknownWrites;
  }

  /** If a rejection contradicts the cache, that part is checked before the change is retried. */
  noteContradictions({ refused }: Pick<Outcomes, "refused">): void {
    for (const { change, error } of refused) {
      if (contradictsCache(error)) this.#suspectPart(change);
    }
  }

  /**
   * Updates the cache, and adds to `scope` everything that must be compared. Resolves with the parts that could not be
   * read. After the first failure, the remaining parts are skipped until the next refresh, except in a clean-up.
   */
  async refresh(goal: SyncGoal, scope: Scope): Promise<readonly Failure[]> {
    const failures: Failure[] = [];
    this.#hasListedServers = false;
    for (const part of observedParts) {
      const failure = await failureOf(part, this.#refreshPart(part, goal, scope));
      if (failure !== undefined) failures.push(failure);
      if (failure !== undefined && goal.cleanUp === undefined) break;
    }
    // A clean-up removes whole sets and the whole link, so their members need not be compared.
    if (goal.cleanUp !== undefined) scope.areAllMembers = false;
    return failures;
  }

  /**
   * Called after a refresh. Checks whether a third party has already created one of the virtual servers that this sync
   * is going to create. This must be known before the set entries are written, because after a restart these entries
   * would identify the foreign virtual server as ours. Costs one message per virtual server. No messages are needed if
   * all virtual servers were just listed, or if foreign virtual servers are treated as ours.
   */
  async refreshUnmade(
    { desired, ownership }: Pick<SyncGoal, "desired" | "ownership">,
    { virtualServers }: Pick<Scope, "virtualServers">,
  ): Promise<Failure | undefined> {
    if (this.#hasListedServers || ownership.foreignVirtualServers === "delete") return undefined;
    const wanted = [...(virtualServers ?? desired.virtualServerKeys())].flatMap(
      (key) => desired.virtualServer(key)?.virtualServer ?? [],
    );
    return failureOf("servers", this.#observer.observeUncached(wanted));
  }

  /**
   * Removes the part's marks before the kernel is read, so that a mark that is set during the read applies to the next
   * refresh.
   */
  async #refreshPart(part: ObservedPart, goal: ObservationGoal, scope: Scope): Promise<void> {
    const wasStale = this.#stale.delete(part);
    const wasSuspect = this.#suspect.delete(part);
    try {
      if (wasStale) await this.#observer.observe(part, goal);
      else if (wasSuspect) await this.#check(part, goal);
    } catch (error) {
      if (wasStale) this.#stale.add(part);
      if (wasSuspect) this.#suspect.add(part);
      throw error;
    }
    if (wasStale && part === "servers") scope.areAllServers = true;
    if (wasStale && (part === "sets" || part === "link")) scope.areAllMembers = true;
    this.#hasListedServers ||= part === "servers" && (wasStale || wasSuspect);
  }

  /** Finds third-party changes in one part, at a lower cost than a complete observation. */
  async #check(part: ObservedPart, goal: ObservationGoal): Promise<void> {
    if (part === "sets") await this.#verification.checkSets();
    else if (part === "servers") await this.#checkServers();
    else await this.#observer.observe(part, goal);
  }

  async #checkServers(): Promise<void> {
    const headers = await this.#observer.observeHeaders();
    const isSuspect = (server: VirtualServer): boolean =>
      this.#suspectServers.has(virtualServerKey(server));
    await this.#observer.observeRealServers(headers.filter(isSuspect));
    this.#suspectServers.clear();
  }

  #suspectPart(change: Change): void {
    const { part } = kindOf(change);
    if (part === undefined || part === "sysctls") return;
    this.#suspect.add(part);
    // Rules cannot be written until the sets to which they refer exist.
    if (part === "rules" && this.#parts.includes("sets")) this.#suspect.add("sets");
    if (part === "servers" && "key" in change) this.#suspectServers.add(change.key);
  }
}

async function failureOf(part: ObservedPart, reading: Promise<void>): Promise<Failure | undefined> {
  try {
    await reading;
    return undefined;
  } catch (error) {
    return { kind: "observe", subject: part, error: error as Error };
  }
}
