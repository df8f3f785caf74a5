import type { DesiredView } from "../../plan/desired-state.ts";
import { type VirtualServer, virtualServerKey } from "../../state/virtual-server.ts";
import type { Outcomes } from "../apply/outcome.ts";
import { contradictsCache } from "../apply/refusal-reason.ts";
import type { Failure } from "../report.ts";
import type { Scope } from "../scope.ts";
import { type Subject, subjectOf } from "../subject.ts";
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
  readonly #stale = new Set<ObservedPart>(observedParts);
  /** Parts that contradicted the cache: checked. */
  readonly #suspect = new Set<ObservedPart>();
  readonly #suspectServers = new Set<string>();

  constructor(observer: Observer, verification: Verification) {
    this.#observer = observer;
    this.#verification = verification;
  }

  /** Nothing is known of a part. */
  get isStale(): boolean {
    return this.#stale.size > 0;
  }

  invalidate(): void {
    for (const part of observedParts) this.#stale.add(part);
  }

  /** Parts of the kernel that requests of unknown outcome may have changed. */
  noteUnknown({ unknown }: Pick<Outcomes, "unknown">): void {
    for (const { part } of unknown) if (part !== undefined) this.#stale.add(part);
  }

  /** What refusals contradict is checked before it is tried again. */
  noteContradictions({ refused }: Pick<Outcomes, "refused">): void {
    for (const { change, error } of refused) {
      if (contradictsCache(error)) this.#suspectPart(subjectOf(change));
    }
  }

  /**
   * Brings the cache up to date, and adds to `scope` what has to be compared then. Gives what could not be read; the
   * rest is left to the next time.
   */
  async refresh(
    goal: Omit<ObservationGoal, "virtualServer"> & { readonly desired: DesiredView },
    scope: Scope,
  ): Promise<Failure | undefined> {
    const virtualServer = (key: string): ReturnType<DesiredView["virtualServer"]> =>
      goal.desired.virtualServer(key);
    for (const part of observedParts) {
      try {
        await this.#refreshPart(part, { ...goal, virtualServer }, scope);
      } catch (error) {
        return { kind: "observe", subject: part, error: error as Error };
      }
    }
    return undefined;
  }

  async #refreshPart(part: ObservedPart, goal: ObservationGoal, scope: Scope): Promise<void> {
    if (this.#stale.has(part)) {
      await this.#observer.observe(part, goal);
      if (part === "servers") scope.areAllServers = true;
      if (part === "sets" || part === "link") scope.areAllMembers = true;
    } else if (this.#suspect.has(part)) {
      await this.#check(part, goal);
    }
    this.#stale.delete(part);
    this.#suspect.delete(part);
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

  #suspectPart(subject: Subject): void {
    switch (subject.type) {
      case "virtual-server":
      case "real-server":
        this.#suspectServers.add(subject.virtualServer);
        this.#suspect.add("servers");
        break;
      case "set":
      case "entry":
        this.#suspect.add("sets");
        break;
      case "chain":
        this.#suspect.add("rules").add("sets");
        break;
      case "link":
      case "address":
        this.#suspect.add("link");
        break;
      default:
        break;
    }
  }
}
