import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Ipvs } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { realServerKey } from "../../state/real-server.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";
import type { Change } from "../change.ts";
import type { DrainStart } from "../change-plan.ts";
import { conntrackDeletion } from "../diff/diff-servers.ts";
import { type Begun, type Ended, logBegun, logEnded } from "./drain-log.ts";
import {
  type Drain,
  type DrainPolicy,
  type DrainStartTimes,
  Drains,
  type DrainsView,
  drainEnd,
  drainKey,
  drainPolicyOf,
} from "./drains.ts";

/** Virtual servers in one check between syncs: a sync that is due waits for no more. */
const serversPerCheck = 1_000;

export interface DrainerParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly startTimes: DrainStartTimes;
}

/** Ends of drains that are due, and the changes that make them true. */
export interface DueEnds {
  readonly ended: readonly Ended[];
  readonly changes: readonly Change[];
}

/**
 * Lets real servers go without breaking their connections: weight 0 first, which takes no new ones; then the connections
 * that are left are counted; removal when there are none. Weight 0 before the count, or a connection that is opened
 * between the two would be cut. Plans and syncs ask and notify it; it changes nothing itself.
 */
export class Drainer {
  readonly #drains = new Drains();
  readonly #parts: DrainerParts;
  /** Keys of virtual servers still to be checked in this round. */
  #uncheckedKeys: string[] = [];
  /** Something began or ended that the start times do not know of. At first they know too much. */
  #isUnkept = true;

  constructor(parts: DrainerParts) {
    this.#parts = parts;
  }

  get view(): DrainsView {
    return this.#drains;
  }

  /** What drains now. */
  get drains(): Pick<Drains, "all" | "of" | "find"> {
    return this.#drains;
  }

  get count(): number {
    return this.#drains.size;
  }

  /** Seconds since the oldest drain began; 0 when nothing drains. */
  get oldestAgeSeconds(): number {
    const since = this.#drains.oldestSinceMs;
    return since === undefined ? 0 : (this.#parts.clock.monotonicMs() - since) / 1000;
  }

  /** Drains of real servers that are wanted again, or whose virtual server goes, end here. `keys` undefined: all. */
  endUnneeded(desired: DesiredView, keys: Iterable<string> | undefined): void {
    if (this.count === 0) return;
    const ended = [...(keys ?? this.#drains.virtualServerKeys())].flatMap((key) =>
      this.#unneededOf(key, desired),
    );
    for (const { drain } of ended) this.#end(drain);
    this.#logEnded(ended);
  }

  /** Weight 0 is in the kernel: these drain from now on. Those of an earlier run keep their start times. */
  begin(starts: readonly DrainStart[]): readonly Begun[] {
    const begun = starts.map((start) => ({ drain: this.#newDrain(start), reason: start.reason }));
    for (const { drain } of begun) this.#drains.begin(drain);
    this.#isUnkept ||= begun.length > 0;
    return begun;
  }

  /** What began and did not end at once is news. */
  logBegun(begun: readonly Begun[]): void {
    const news = begun.filter(({ drain }) => this.#isDraining(drain));
    logBegun(this.#parts.log, news);
    this.#logUnknownStarts(news);
  }

  /**
   * Counts the connections of what drains in these virtual servers, but for what waits. Rejects with what the kernel says.
   */
  async findDueEnds(
    keys: Iterable<string>,
    tools: {
      readonly ipvs: Pick<Ipvs, "listRealServers">;
      readonly desired: DesiredView;
      readonly policy: DrainPolicy;
      isWaiting(drain: Drain): boolean;
    },
  ): Promise<DueEnds> {
    const groups = [...new Set(keys)].map((key) =>
      this.#drains.of(key).filter((drain) => !tools.isWaiting(drain)),
    );
    const filled = groups.filter((group) => group.length > 0);
    if (filled.length === 0) return { ended: [], changes: [] };
    const observed = await tools.ipvs.listRealServers(
      filled.map(([first]) => first?.virtualServer as VirtualServerId),
    );
    const nowMs = this.#parts.clock.monotonicMs();
    const ended = filled.flatMap((group, index) => {
      const byKey = new Map(observed[index]?.map((server) => [realServerKey(server), server]));
      return group.flatMap((drain): readonly Ended[] => {
        const key = realServerKey(drain.realServer);
        const planned = tools.desired.virtualServer(drain.virtualServerKey);
        const isServing = planned?.stillServing?.has(key) ?? false;
        const reason = drainEnd(
          drain,
          { observed: byKey.get(key), isServing, nowMs },
          drainPolicyOf(planned, tools.policy),
        );
        return reason === undefined ? [] : [{ drain, reason }];
      });
    });
    return {
      ended,
      changes: ended.map(({ drain }) => removal(drain)).concat(flowDeletions(ended)),
    };
  }

  /** Keys of virtual servers to be checked now. Of very many some each time, in turn. */
  takeKeysToCheck(): readonly string[] {
    if (this.#uncheckedKeys.length === 0) {
      this.#uncheckedKeys = [...this.#drains.virtualServerKeys()];
    }
    return this.#uncheckedKeys.splice(0, serversPerCheck);
  }

  /** These are out of the kernel. `newcomers`: what was idle from the start is no news. */
  end(ended: readonly Ended[], newcomers: readonly Begun[] = []): void {
    for (const { drain } of ended) this.#end(drain);
    const unlogged = new Set(newcomers.map(({ drain }) => drain));
    this.#logEnded(ended.filter(({ drain }) => !unlogged.has(drain)));
  }

  /** Notes what drains now for the program that runs after this one. */
  keepStartTimes(): void {
    if (!this.#isUnkept) return;
    this.#isUnkept = false;
    this.#parts.startTimes.keep(this.#drains.all());
  }

  #unneededOf(virtualServerKey: string, desired: DesiredView): readonly Ended[] {
    const current = this.#drains.of(virtualServerKey);
    if (current.length === 0) return [];
    const server = desired.virtualServer(virtualServerKey);
    if (server === undefined) {
      return current.map((drain) => ({ drain, reason: "virtual-server-removed" }));
    }
    const wantedKeys = new Set(server.realServers.map(realServerKey));
    return current
      .filter((drain) => wantedKeys.has(realServerKey(drain.realServer)))
      .map((drain) => ({ drain, reason: "wanted-again" }));
  }

  /** One that drains already, or that a start found, drained before: its age goes on where it is known. */
  #newDrain({ reason, ...start }: DrainStart): Drain {
    const present = this.#drains.find(start.virtualServerKey, start.realServer);
    if (present !== undefined) return { ...present, realServer: start.realServer };
    const drain = { ...start, sinceMs: this.#parts.clock.monotonicMs() };
    if (reason !== "found-draining") return drain;
    return { ...drain, sinceMs: this.#parts.startTimes.recall(drainKey(drain)) ?? drain.sinceMs };
  }

  #isDraining(drain: Drain): boolean {
    return this.#drains.find(drain.virtualServerKey, drain.realServer) === drain;
  }

  #end(drain: Drain): void {
    this.#drains.end(drain);
    this.#isUnkept = true;
  }

  #logEnded(ended: readonly Ended[]): void {
    logEnded(this.#parts.log, ended, this.#parts.clock.monotonicMs());
  }

  #logUnknownStarts(begun: readonly Begun[]): void {
    const { log, startTimes } = this.#parts;
    const count = begun.filter(
      ({ drain, reason }) =>
        reason === "found-draining" && startTimes.recall(drainKey(drain)) === undefined,
    ).length;
    if (count === 0) return;
    log.info("Drain start unknown, restarting its deadline", {
      count,
      reason: startTimes.whyUnknown ?? "the start was not recorded",
    });
  }
}

function removal({ virtualServerKey: key, virtualServer, realServer }: Drain): Change {
  const before = realServer;
  return { kind: "real-server-remove", key, virtualServer, before, reason: "drain-end" };
}

function flowDeletions(ended: readonly Ended[]): readonly Change[] {
  return ended
    .filter(({ drain: { virtualServer } }) => virtualServer.protocol === "UDP")
    .map(({ drain: { virtualServerKey, virtualServer, realServer } }) =>
      conntrackDeletion(virtualServerKey, virtualServer, realServer),
    );
}
