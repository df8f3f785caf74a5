import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { IpvsChange } from "../kernel/kernel.ts";
import { type RealServer, realServerKey } from "../state/real-server.ts";
import type { VirtualServerId } from "../state/virtual-server.ts";
import type { DesiredView } from "./desired-view.ts";
import { idOf, type VirtualServerDiff } from "./diff.ts";
import { type Begun, type Ended, tellBegun, tellEnded } from "./drain-log.ts";
import {
  type Drain,
  type DrainAges,
  type DrainPolicy,
  Drains,
  drainEnd,
  drainKey,
  drains,
} from "./drains.ts";
import type { FlowSweeper } from "./flow-sweeper.ts";
import type { KnownState } from "./known-state.ts";
import { applyIpvs } from "./server-steps.ts";
import { shareDesired } from "./share-desired.ts";
import type { SyncContext, SyncTools } from "./sync-context.ts";

/** Virtual servers in one look between syncs: a sync that is due waits for no more. */
const serversPerLook = 1_000;

type Context = Pick<SyncTools, "kernel" | "known" | "report">;

export interface DrainerParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly ages: DrainAges;
  /** Is told of every UDP real server that is removed. */
  readonly flows: Pick<FlowSweeper, "noteLost">;
}

/**
 * Lets real servers go without breaking their connections: weight 0 first, which takes no new ones; then
 * a look at the connections that are left; removal when there are none. Weight 0 before the look, or a
 * connection that is opened between the two would be cut.
 */
export class Drainer {
  readonly #drains = new Drains();
  readonly #parts: DrainerParts;
  readonly #policy: DrainPolicy;
  /** Keys of virtual servers whose turn is still to come in this round of looks. */
  #unseenKeys: string[] = [];
  /** Something began or ended that the ages do not know of. At first they know too much. */
  #isUnkept = true;

  constructor(parts: DrainerParts, policy: DrainPolicy) {
    this.#parts = parts;
    this.#policy = policy;
  }

  get count(): number {
    return this.#drains.size;
  }

  /** Seconds since the oldest drain began; 0 when nothing drains. */
  get oldestAgeSeconds(): number {
    const since = this.#drains.oldestSinceMs;
    return since === undefined ? 0 : (this.#parts.clock.monotonicMs() - since) / 1000;
  }

  /** The step of a sync: begins drains, cuts what does not drain, ends what is idle already. */
  async release(context: SyncContext): Promise<void> {
    this.#endStale(context);
    const leaving = context.work.servers.filter((diff) => diff.unwanted.length > 0);
    const released = leaving.flatMap((diff) => this.#newcomers(diff, context.known));
    const begun = await this.#begin(context, released);
    try {
      const groups = leaving.map(({ key }) => this.#drains.of(key));
      const ended = await this.#endFinished(context, context.goal.desired, groups);
      const newcomers = new Set(begun.map(({ drain }) => drain));
      // What was idle from the start is no news.
      this.#tellEnded(ended.filter(({ drain }) => !newcomers.has(drain)));
    } finally {
      const keys = leaving.map(({ key }) => key);
      shareDesired(context.known, context.goal.desired, keys);
      this.#tellBegun(begun.filter(({ drain }) => this.#isDraining(drain)));
      this.#keepAges();
    }
  }

  /**
   * Between syncs: ends the drains whose connections are gone or whose time is up. Of very many virtual
   * servers it looks at some each time, in turn.
   */
  async check(context: Context, desired: DesiredView): Promise<void> {
    if (this.#unseenKeys.length === 0) this.#unseenKeys = [...this.#drains.virtualServerKeys()];
    const keys = this.#unseenKeys.splice(0, serversPerLook);
    const groups = keys.map((key) => this.#drains.of(key));
    this.#tellEnded(await this.#endFinished(context, desired, groups));
    shareDesired(context.known, desired, keys);
    this.#keepAges();
  }

  /** Drains of servers that are wanted again, or whose virtual server goes, are no drains any more. */
  #endStale({ goal, work }: SyncContext): void {
    const keys =
      goal.dirty === "all" ? this.#drains.virtualServerKeys() : work.servers.map(({ key }) => key);
    const ended = keys.flatMap((key) => this.#staleOf(key, goal.desired));
    for (const { drain } of ended) this.#end(drain);
    this.#tellEnded(ended);
  }

  #staleOf(virtualServerKey: string, desired: DesiredView): readonly Ended[] {
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

  /** Those that nobody wants and that do not drain yet, or that somebody gave weight again meanwhile. */
  #newcomers({ key, unwanted }: VirtualServerDiff, known: KnownState): readonly Drain[] {
    const server = known.virtualServers.get(key);
    if (server === undefined) return [];
    const virtualServer = idOf(server);
    return unwanted
      .filter(({ weight, ...id }) => weight > 0 || this.#drains.find(key, id) === undefined)
      .map((realServer) => this.#newDrain({ virtualServerKey: key, virtualServer, realServer }));
  }

  /** One that drains already, or has no weight, drained before: its age goes on where it is known. */
  #newDrain(server: Omit<Drain, "sinceMs">): Drain {
    const present = this.#drains.find(server.virtualServerKey, server.realServer);
    if (present !== undefined) return { ...present, realServer: server.realServer };
    const drain = { ...server, sinceMs: this.#parts.clock.monotonicMs() };
    const isTakenUp = drain.realServer.weight === 0;
    const noted = isTakenUp ? this.#parts.ages.recall(drainKey(drain)) : undefined;
    return { ...drain, sinceMs: noted ?? drain.sinceMs };
  }

  /** Takes the weight from those that drain, and removes at once what does not. */
  async #begin(context: Context, released: readonly Drain[]): Promise<readonly Begun[]> {
    const isDrained = ({ virtualServer: { protocol } }: Drain): boolean =>
      drains(protocol, this.#policy);
    await this.#remove(
      context,
      released.filter((drain) => !isDrained(drain)),
    );
    const begun = await this.#quiesce(context, released.filter(isDrained));
    for (const { drain } of begun) this.#drains.begin(drain);
    this.#isUnkept ||= begun.length > 0;
    return begun;
  }

  async #quiesce(context: Context, released: readonly Drain[]): Promise<readonly Begun[]> {
    const changes = new Map<Drain, IpvsChange>();
    for (const drain of released) {
      const { virtualServer, realServer } = drain;
      if (realServer.weight === 0) continue;
      const weightless = { ...realServer, weight: 0 };
      changes.set(drain, { kind: "update-real-server", virtualServer, realServer: weightless });
    }
    const failed = await applyIpvs(context, [...changes.values()]);
    const quiesced = released.filter((drain) => !failed.has(changes.get(drain) as IpvsChange));
    replaceKnown(context.known, quiesced, (realServer) => [{ ...realServer, weight: 0 }]);
    return quiesced.map((drain) => ({
      drain,
      reason: changes.has(drain) ? "endpoint-removed" : "found-draining",
    }));
  }

  /** Looks at the virtual servers of these drains and at no other; one group for each. */
  async #endFinished(
    context: Context,
    desired: DesiredView,
    groups: readonly (readonly Drain[])[],
  ): Promise<readonly Ended[]> {
    const filled = groups.filter((group) => group.length > 0);
    if (filled.length === 0) return [];
    const observed = await context.kernel.ipvs.listRealServers(
      filled.map(([first]) => first?.virtualServer as VirtualServerId),
    );
    const nowMs = this.#parts.clock.monotonicMs();
    const finished: Ended[] = [];
    for (const [index, group] of filled.entries()) {
      const byKey = new Map(observed[index]?.map((server) => [realServerKey(server), server]));
      for (const drain of group) {
        const key = realServerKey(drain.realServer);
        const planned = desired.virtualServer(drain.virtualServerKey);
        const isServing = planned?.stillServing?.has(key) ?? false;
        const view = { observed: byKey.get(key), isServing, nowMs };
        const reason = drainEnd(drain, view, this.#policy);
        if (reason !== undefined) finished.push({ drain, reason });
      }
    }
    return this.#removeEnded(context, finished);
  }

  /** A drain whose removal fails goes on, with its age. */
  async #removeEnded(context: Context, finished: readonly Ended[]): Promise<readonly Ended[]> {
    const removed = new Set(
      await this.#remove(
        context,
        finished.map(({ drain }) => drain),
      ),
    );
    const ended = finished.filter(({ drain }) => removed.has(drain));
    for (const { drain } of ended) this.#end(drain);
    return ended;
  }

  /** Gives those whose removal worked; what is not there is removed. */
  async #remove(context: Context, released: readonly Drain[]): Promise<readonly Drain[]> {
    const changes = released.map(
      ({ virtualServer, realServer }): IpvsChange => ({
        kind: "remove-real-server",
        virtualServer,
        realServer,
      }),
    );
    const failed = await applyIpvs(context, changes);
    const removed = released.filter((_, index) => !failed.has(changes[index] as IpvsChange));
    replaceKnown(context.known, removed, () => []);
    for (const { virtualServer, realServer } of removed) {
      this.#parts.flows.noteLost(virtualServer, realServer);
    }
    return removed;
  }

  #isDraining(drain: Drain): boolean {
    return this.#drains.find(drain.virtualServerKey, drain.realServer) === drain;
  }

  #end(drain: Drain): void {
    this.#drains.end(drain);
    this.#isUnkept = true;
  }

  #keepAges(): void {
    if (!this.#isUnkept) return;
    this.#isUnkept = false;
    this.#parts.ages.keep(this.#drains.all());
  }

  #tellEnded(ended: readonly Ended[]): void {
    tellEnded(this.#parts.log, ended, this.#parts.clock.monotonicMs());
  }

  #tellBegun(begun: readonly Begun[]): void {
    const { log, ages } = this.#parts;
    tellBegun(log, begun);
    const takenUp = begun.filter(({ reason }) => reason === "found-draining");
    const ofUnknownAge = takenUp.filter(({ drain }) => ages.recall(drainKey(drain)) === undefined);
    if (ofUnknownAge.length === 0) return;
    log.info("Deadlines of drains that were found count from now", {
      count: ofUnknownAge.length,
      reason: ages.ignorance ?? "their beginning was not noted",
    });
  }
}

/** Puts `replace`'s result in the place of each of these real servers, in one pass over each list. */
function replaceKnown(
  known: KnownState,
  drained: readonly Drain[],
  replace: (realServer: RealServer) => readonly RealServer[],
): void {
  for (const [key, drainsOfServer] of Map.groupBy(drained, (drain) => drain.virtualServerKey)) {
    const server = known.virtualServers.get(key);
    if (server === undefined) continue;
    const keys = new Set(drainsOfServer.map(({ realServer }) => realServerKey(realServer)));
    const realServers = server.realServers.flatMap((realServer) =>
      keys.has(realServerKey(realServer)) ? replace(realServer) : [realServer],
    );
    known.virtualServers.set(key, { ...server, realServers });
  }
}
