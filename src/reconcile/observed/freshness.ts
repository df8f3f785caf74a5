import { type VirtualServer, virtualServerKey } from "../../state/virtual-server.ts";
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

/** Which parts of the cache can be trusted, and how the others are observed again. */
export class Freshness {
  readonly #observer: Observer;
  readonly #verification: Verification;
  /** Parts of which nothing is known: observed as a whole. */
  readonly #stale: Set<ObservedPart>;
  readonly #parts: readonly ObservedPart[];
  /** Parts that contradicted the cache: checked. */
  readonly #suspect = new Set<ObservedPart>();
  readonly #suspectServers = new Set<string>();
  /** Requests of unknown outcome may have changed virtual or real servers. */
  #hasUnknownWrites = false;
  /** All virtual servers were listed by the last refresh. */
  #hasListedServers = false;

  /** `parts`: all others are not read. */
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

  /** Nothing is known of a part. */
  get isStale(): boolean {
    return this.#stale.size > 0;
  }

  invalidate(): void {
    for (const part of this.#parts) this.#stale.add(part);
  }

  /** Parts of the kernel that requests of unknown outcome may have changed. */
  noteUnknown({ unknown }: Pick<Outcomes, "unknown">): void {
    for (const { part } of unknown) if (part !== undefined) this.#stale.add(part);
    this.#hasUnknownWrites ||= unknown.some(({ part }) => part === "servers");
  }

  /** Whether servers that differ may be so by a write of ours; asked once they are observed. */
  takeUnknownWrites(): boolean {
    const hadUnknownWrites = this.#hasUnknownWrites;
    this.#hasUnknownWrites = false;
    return hadUnknownWrites;
  }

  /** What refusals contradict is checked before it is retried. */
  noteContradictions({ refused }: Pick<Outcomes, "refused">): void {
    for (const { change, error } of refused) {
      if (contradictsCache(error)) this.#suspectPart(change);
    }
  }

  /**
   * Brings the cache up to date, and adds to `scope` what has to be compared then. Gives what could not be read; the
   * rest is left to the next time, except by a clean-up.
   */
  async refresh(goal: SyncGoal, scope: Scope): Promise<readonly Failure[]> {
    const failures: Failure[] = [];
    this.#hasListedServers = false;
    for (const part of observedParts) {
      const failure = await failureOf(part, this.#refreshPart(part, goal, scope));
      if (failure !== undefined) failures.push(failure);
      if (failure !== undefined && goal.cleanUp === undefined) break;
    }
    // With a set or the link, all its members are removed.
    if (goal.cleanUp !== undefined) scope.areAllMembers = false;
    return failures;
  }

  /**
   * After a refresh: finds out which of the virtual servers that are to be made a third party has made meanwhile. The set
   * entry of each comes before it, and from then on a start would take what stands there for ours. Costs a message for
   * each, nothing where all were just listed, and where all are ours anyway.
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

  /** The marks are taken first: one that is made while the kernel is read counts for the next time. */
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

  /** Finds out what a third party changed, at less cost than an observation of everything. */
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
    // Rules cannot be written before the sets they name.
    if (part === "rules") this.#suspect.add("sets");
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
