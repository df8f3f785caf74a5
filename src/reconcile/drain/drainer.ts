import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Ipvs } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { realServerKey } from "../../state/real-server.ts";
import type { ServerKey, VirtualServerId } from "../../state/virtual-server.ts";
import type { Pass } from "../apply/pass.ts";
import type { Change } from "../change.ts";
import type { ChangePlan, DrainStart } from "../change-plan.ts";
import { conntrackDeletion } from "../kinds/diff-servers.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { StatusTable } from "../status/status-table.ts";
import type { Subject } from "../subject.ts";
import { type Begun, type Ended, logBegun, logEnded } from "./drain-log.ts";
import {
  type Drain,
  type DrainKey,
  type DrainPolicy,
  type DrainStartTimes,
  Drains,
  drainEnd,
  drainKey,
  drainPolicyOf,
  mayBeUdp,
  protocolOf,
} from "./drains.ts";

/** Number of virtual servers that one check examines. A sync that is due waits for at most one check. */
const serversPerCheck = 1_000;

export interface DrainerDependencies {
  readonly clock: Clock;
  readonly log: Logger;
  readonly startTimes: DrainStartTimes;
  readonly ipvs: Pick<Ipvs, "listRealServers">;
  readonly cached: CachedState;
  readonly status: StatusTable;
}

/**
 * Removes real servers without breaking their connections. A sync sets their weight to 0, so that no new connections
 * arrive. Then this class counts the remaining connections, and removes a real server when it has none. The weight must
 * be 0 before the count; otherwise a connection that is opened after the count would be cut. A removal that the kernel
 * rejects is retried with back-off.
 */
export class Drainer {
  readonly #drains = new Drains();
  readonly #dependencies: DrainerDependencies;
  /** Keys of virtual servers that are still unchecked in this round. */
  #uncheckedKeys: ServerKey[] = [];
  /**
   * Whether the stored start times are outdated. True at first, because they may include drains that no longer exist.
   */
  #hasUnsavedChanges = true;

  constructor(dependencies: DrainerDependencies) {
    this.#dependencies = dependencies;
  }

  get drains(): Pick<Drains, "all" | "of" | "find" | "isDraining"> {
    return this.#drains;
  }

  get count(): number {
    return this.#drains.size;
  }

  /** Seconds since the oldest drain began. 0 if there are no drains. */
  get oldestAgeSeconds(): number {
    const since = this.#drains.oldestSinceMs;
    return since === undefined ? 0 : (this.#dependencies.clock.monotonicMs() - since) / 1000;
  }

  /**
   * Ends the drains of real servers that are desired again or whose virtual server is removed. If `keys` is
   * undefined, checks all virtual servers.
   */
  endUnneeded(desired: DesiredView, keys: Iterable<ServerKey> | undefined): void {
    const ended = [...(keys ?? this.#drains.virtualServerKeys())].flatMap((key) =>
      this.#unneededOf(key, desired),
    );
    for (const { drain } of ended) this.#end(drain);
    this.#logEnded(ended);
  }

  /**
   * Called after a sync. Starts the drains of real servers whose weight was set to 0. A real server without connections
   * is removed immediately, and no drain is logged.
   */
  async after(
    { drainStarts }: ChangePlan,
    pass: Pass,
    desired: DesiredView,
    policy: DrainPolicy,
  ): Promise<void> {
    const begun = this.#begin(drainStarts);
    if (begun.length === 0) return;
    const keys = begun.map(({ drain }) => drain.virtualServerKey);
    await this.#removeDue(keys, pass, desired, policy, begun);
    const news = begun.filter(({ drain }) => this.#isDraining(drain));
    logBegun(this.#dependencies.log, news);
    this.#logUnknownStarts(news);
  }

  /** Removes drained real servers. If there are many virtual servers, each call checks the next group. */
  check(pass: Pass, desired: DesiredView, policy: DrainPolicy): Promise<void> {
    if (this.#uncheckedKeys.length === 0) {
      this.#uncheckedKeys = [...this.#drains.virtualServerKeys()];
    }
    return this.#removeDue(this.#uncheckedKeys.splice(0, serversPerCheck), pass, desired, policy);
  }

  /** Stores the current drains for the next run. */
  keepStartTimes(): void {
    if (!this.#hasUnsavedChanges) return;
    this.#hasUnsavedChanges = false;
    this.#dependencies.startTimes.keep(this.#drains.all());
  }

  /**
   * Starts the drains of real servers whose weight is 0 in the kernel. Drains from an earlier run keep their start
   * times.
   */
  #begin(drainStarts: readonly DrainStart[]): readonly Begun[] {
    if (drainStarts.length === 0) return [];
    const weights = this.#cachedWeights(drainStarts);
    const begun = drainStarts
      .filter((start) => weights.get(drainKey(start)) === 0)
      .map((start) => ({ drain: this.#newDrain(start), reason: start.reason }));
    for (const { drain } of begun) this.#drains.begin(drain);
    this.#hasUnsavedChanges ||= begun.length > 0;
    return begun;
  }

  /** Weights of all real servers of these virtual servers, by drain key. */
  #cachedWeights(of: readonly Pick<Drain, "virtualServerKey">[]): ReadonlyMap<DrainKey, number> {
    const weights = new Map<DrainKey, number>();
    for (const virtualServerKey of new Set(of.map((one) => one.virtualServerKey))) {
      const server = this.#dependencies.cached.virtualServers.get(virtualServerKey);
      for (const realServer of server?.realServers ?? []) {
        weights.set(drainKey({ virtualServerKey, realServer }), realServer.weight);
      }
    }
    return weights;
  }

  /** Removes real servers whose drain has ended. If the kernel rejects a removal, the drain continues. */
  async #removeDue(
    keys: readonly ServerKey[],
    pass: Pass,
    desired: DesiredView,
    policy: DrainPolicy,
    newcomers: readonly Begun[] = [],
  ): Promise<void> {
    let due: readonly Ended[];
    try {
      due = await this.#findDue(keys, desired, policy);
    } catch (error) {
      const subject = "draining real servers";
      pass.outcomes.unread.push({ kind: "observe", subject, error: error as Error });
      return;
    }
    await pass.apply([...due.map(({ drain }) => removal(drain)), ...flowDeletions(due)]);
    const left = this.#cachedWeights(due.map(({ drain }) => drain));
    const ended = due.filter(({ drain }) => !left.has(drainKey(drain)));
    for (const { drain } of ended) this.#end(drain);
    const unlogged = new Set(newcomers.map(({ drain }) => drain));
    this.#logEnded(ended.filter(({ drain }) => !unlogged.has(drain)));
  }

  /**
   * Finds the drains that have ended, by connection count. Skips drains whose removal is pending. Rejects if the kernel
   * cannot be read.
   */
  async #findDue(
    keys: readonly ServerKey[],
    desired: DesiredView,
    policy: DrainPolicy,
  ): Promise<readonly Ended[]> {
    const { clock, ipvs, status } = this.#dependencies;
    const askedMs = clock.monotonicMs();
    const isPending = (drain: Drain): boolean => status.isPending(subjectOfDrain(drain), askedMs);
    const groups = [...new Set(keys)]
      .map((key) => this.#drains.of(key).filter((drain) => !isPending(drain)))
      .filter((group) => group.length > 0);
    if (groups.length === 0) return [];
    const observed = await ipvs.listRealServers(
      groups.map(([first]) => first?.virtualServer as VirtualServerId),
    );
    const nowMs = clock.monotonicMs();
    return groups.flatMap((group, index) => {
      const byKey = new Map(observed[index]?.map((server) => [realServerKey(server), server]));
      return group.flatMap((drain): readonly Ended[] => {
        const key = realServerKey(drain.realServer);
        const planned = desired.virtualServer(drain.virtualServerKey);
        const isServing = planned?.stillServing?.has(key) ?? false;
        const protocol = protocolOf(drain.virtualServer, planned);
        const found = { observed: byKey.get(key), isServing, nowMs };
        const virtualServer = { ...drain.virtualServer, protocol };
        const reason = drainEnd({ ...drain, virtualServer }, found, drainPolicyOf(planned, policy));
        if (reason !== undefined) return [{ drain, reason }];
        // The deadline is counted from the time at which the endpoint stops serving.
        if (isServing && !mayBeUdp(protocol)) this.#drains.begin({ ...drain, sinceMs: nowMs });
        return [];
      });
    });
  }

  #unneededOf(virtualServerKey: ServerKey, desired: DesiredView): readonly Ended[] {
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

  /**
   * The start time of a real server that is already draining does not change. If a real server was found draining at
   * startup, its drain began at the saved start time, or now if none was saved.
   */
  #newDrain({ reason, ...start }: DrainStart): Drain {
    const present = this.#drains.find(start.virtualServerKey, start.realServer);
    if (present !== undefined) return { ...present, realServer: start.realServer };
    const drain = { ...start, sinceMs: this.#dependencies.clock.monotonicMs() };
    if (reason !== "found-draining") return drain;
    return {
      ...drain,
      sinceMs: this.#dependencies.startTimes.recall(drainKey(drain)) ?? drain.sinceMs,
    };
  }

  #isDraining(drain: Drain): boolean {
    return this.#drains.find(drain.virtualServerKey, drain.realServer) === drain;
  }

  #end(drain: Drain): void {
    const { status } = this.#dependencies;
    const present = status.find(subjectOfDrain(drain));
    if (present?.rejection?.isDrainEnd === true) status.endRejection(present);
    this.#drains.end(drain);
    this.#hasUnsavedChanges = true;
  }

  #logEnded(ended: readonly Ended[]): void {
    logEnded(this.#dependencies.log, ended, this.#dependencies.clock.monotonicMs());
  }

  #logUnknownStarts(begun: readonly Begun[]): void {
    const { log, startTimes } = this.#dependencies;
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

function subjectOfDrain({
  virtualServerKey: virtualServer,
  realServer,
}: Pick<Drain, "virtualServerKey" | "realServer">): Subject {
  return { type: "real-server", virtualServer, realServer: realServerKey(realServer) };
}
