import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { IpvsChange, Kernel } from "../kernel/kernel.ts";
import { type ObservedRealServer, type RealServer, realServerKey } from "../state/real-server.ts";
import type { VirtualServerId } from "../state/virtual-server.ts";
import { idOf, type VirtualServerDiff } from "./diff.ts";
import { type Drain, type DrainEnd, type DrainPolicy, Drains, drainEnd, drains } from "./drains.ts";
import type { KnownState } from "./known-state.ts";
import { applyIpvs } from "./server-steps.ts";
import type { SyncContext } from "./sync-context.ts";

type Context = Pick<SyncContext, "kernel" | "known" | "report">;

/**
 * Lets real servers go without breaking their connections: weight 0 first, which takes no new ones; then
 * a look at the connections that are left; removal when there are none. Weight 0 before the look, or a
 * connection that is opened between the two would be cut.
 */
export class Drainer {
  readonly #drains = new Drains();
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #policy: DrainPolicy;

  constructor(
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
    policy: DrainPolicy,
  ) {
    this.#clock = clock;
    this.#log = log;
    this.#policy = policy;
  }

  get count(): number {
    return this.#drains.size;
  }

  /** Seconds since the oldest drain began; 0 when nothing drains. */
  get oldestAgeSeconds(): number {
    const since = this.#drains.oldestSinceMs;
    return since === undefined ? 0 : (this.#clock.monotonicMs() - since) / 1000;
  }

  /** The step of a sync: begins drains, cuts what does not drain, ends what is idle already. */
  async release(context: SyncContext): Promise<void> {
    const { servers } = context.work;
    for (const diff of servers) this.#endStale(diff, context);
    const leaving = servers.filter((diff) => diff.unwanted.length > 0);
    if (leaving.length === 0) return;
    const released = leaving.flatMap((diff) => this.#released(diff, context.known));
    const begun = await this.#quiesce(context, released);
    const fresh = begun.filter((drain) => this.#drains.begin(drain));
    const cut = released.filter(({ virtualServer: id }) => !drains(id.protocol, this.#policy));
    await this.#remove(context, cut);
    await this.#endFinished(
      context,
      leaving.map(({ key }) => this.#drains.of(key)),
    );
    for (const drain of fresh) if (this.#drains.has(drain)) this.#logStart(drain);
  }

  /** Between syncs: ends the drains whose connections are gone or whose time is up. */
  async check(context: Context): Promise<void> {
    await this.#endFinished(context, this.#drains.groups());
  }

  /** Drains of servers that are wanted again, or whose virtual server goes, are no drains any more. */
  #endStale(diff: VirtualServerDiff, { goal }: SyncContext): void {
    const current = this.#drains.of(diff.key);
    if (current.length === 0) return;
    const wanted = goal.desired.virtualServer(diff.key)?.realServers.map(realServerKey);
    const wantedKeys = new Set(wanted);
    for (const drain of current) {
      if (diff.isUnwanted) this.#end(drain, "virtual-server-removed");
      else if (wantedKeys.has(realServerKey(drain.realServer))) this.#end(drain, "wanted-again");
    }
  }

  #released(diff: VirtualServerDiff, known: KnownState): readonly Drain[] {
    const server = known.virtualServers.get(diff.key);
    if (server === undefined) return [];
    const sinceMs = this.#clock.monotonicMs();
    return diff.unwanted.map((realServer) => ({
      virtualServerKey: diff.key,
      virtualServer: idOf(server),
      realServer,
      sinceMs,
    }));
  }

  /** Takes the weight from those that have one; tells which are at weight 0 now. */
  async #quiesce(context: Context, released: readonly Drain[]): Promise<readonly Drain[]> {
    const draining = released.filter(({ virtualServer: id }) => drains(id.protocol, this.#policy));
    const changes = draining
      .filter(({ realServer }) => realServer.weight !== 0)
      .map(
        ({ virtualServer, realServer }): IpvsChange => ({
          kind: "update-real-server",
          virtualServer,
          realServer: { ...realServer, weight: 0 },
        }),
      );
    const failedKeys = await applyIpvs(context, changes);
    const quiesced = draining.filter(({ virtualServerKey: key }) => !failedKeys.has(key));
    for (const drain of quiesced) noteWeightZero(context.known, drain);
    return quiesced;
  }

  async #endFinished(context: Context, groups: readonly (readonly Drain[])[]): Promise<void> {
    const filled = groups.filter((group) => group.length > 0);
    if (filled.length === 0) return;
    const observed = await observeGroups(context.kernel, filled);
    const finished: { drain: Drain; end: DrainEnd }[] = [];
    for (const [index, group] of filled.entries()) {
      for (const drain of group) {
        const server = findServer(observed[index] ?? [], drain.realServer);
        const end = drainEnd(drain, server, this.#clock.monotonicMs(), this.#policy);
        if (end !== undefined) finished.push({ drain, end });
      }
    }
    await this.#remove(
      context,
      finished.map(({ drain }) => drain),
    );
    for (const { drain, end } of finished) this.#end(drain, end);
  }

  async #remove({ kernel, known, report }: Context, removed: readonly Drain[]): Promise<void> {
    const changes = removed.map(
      ({ virtualServer, realServer }): IpvsChange => ({
        kind: "remove-real-server",
        virtualServer,
        realServer,
      }),
    );
    const failedKeys = await applyIpvs({ kernel, report }, changes);
    for (const drain of removed) {
      if (!failedKeys.has(drain.virtualServerKey)) noteRemoved(known, drain);
    }
  }

  #logStart(drain: Drain): void {
    this.#log.info("Real server drains", {
      virtualServer: drain.virtualServerKey,
      realServer: realServerKey(drain.realServer),
      reason: "endpoint-removed",
    });
  }

  #end(drain: Drain, reason: DrainEnd): void {
    const seconds = (this.#clock.monotonicMs() - drain.sinceMs) / 1000;
    this.#drains.end(drain);
    this.#log.verbose(2, "Real server drained", {
      virtualServer: drain.virtualServerKey,
      realServer: realServerKey(drain.realServer),
      reason,
      elapsedSeconds: Number(seconds.toFixed(1)),
    });
  }
}

function observeGroups(
  kernel: Kernel,
  groups: readonly (readonly Drain[])[],
): Promise<readonly (readonly ObservedRealServer[])[]> {
  return kernel.ipvs.listRealServers(
    groups.map(([first]) => first?.virtualServer as VirtualServerId),
  );
}

function findServer(
  servers: readonly ObservedRealServer[],
  wanted: RealServer,
): ObservedRealServer | undefined {
  return servers.find(({ address, port }) => address === wanted.address && port === wanted.port);
}

function noteWeightZero(known: KnownState, drain: Drain): void {
  replaceRealServer(known, drain, { ...drain.realServer, weight: 0 });
}

function noteRemoved(known: KnownState, drain: Drain): void {
  replaceRealServer(known, drain, undefined);
}

function replaceRealServer(
  known: KnownState,
  { virtualServerKey, realServer }: Drain,
  replacement: RealServer | undefined,
): void {
  const server = known.virtualServers.get(virtualServerKey);
  if (server === undefined) return;
  const { address, port } = realServer;
  const isOther = (other: RealServer): boolean => other.address !== address || other.port !== port;
  const others = server.realServers.filter(isOther);
  const realServers = replacement === undefined ? others : [...others, replacement];
  known.virtualServers.set(virtualServerKey, { ...server, realServers });
}
