import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "../../api/objects.ts";
import type { ResourceKind } from "../../api/source.ts";
import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { Exclusive } from "../../base/exclusive.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import { ChangeTracker } from "../../model/change-tracker.ts";
import type { NodePlace } from "../../model/topology.ts";
import type { Portals } from "../../userspace/portals.ts";
import type { UserspaceProxier } from "../../userspace/proxier.ts";
import { serviceListeners } from "../../userspace/service-listeners.ts";
import type { ProxyHealth } from "../report/proxy-health.ts";
import type { SyncHistory } from "../report/sync-history.ts";
import { InitialLists } from "../sync/initial-lists.ts";

export interface UserspaceLoopParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly health: ProxyHealth;
  readonly proxier: UserspaceProxier;
  /** Absent: listeners alone. */
  readonly portals: Portals | undefined;
  readonly families: readonly IpFamily[];
  readonly history: SyncHistory;
  /** Called after each sync that worked. */
  readonly onSynced: () => void;
}

type LoopConfig = Pick<Config, "nodeName" | "syncPeriodMs" | "minSyncPeriodMs">;

/** Brings listeners, then rules, in line with Services and endpoints: what changed soon, everything now and then. */
export class UserspaceLoop {
  readonly #parts: UserspaceLoopParts;
  readonly #config: LoopConfig;
  readonly #tracker: ChangeTracker;
  readonly #lists = new InitialLists();
  readonly #exclusive = new Exclusive();
  #place: NodePlace;
  #syncedAtMs = Number.NEGATIVE_INFINITY;
  #isPlanned = false;
  #cancelSync: () => void = () => {};
  #cancelPeriod: () => void = () => {};
  #isStopped = false;

  constructor(parts: UserspaceLoopParts, config: LoopConfig) {
    this.#parts = parts;
    this.#config = config;
    this.#tracker = new ChangeTracker(parts.clock.nowMs());
    this.#place = { nodeName: config.nodeName, zone: "" };
  }

  /** Objects as last known. */
  get objects(): ChangeTracker {
    return this.#tracker;
  }

  get place(): NodePlace {
    return this.#place;
  }

  start(): void {
    for (const family of this.#parts.families) this.#parts.health.started(family);
    this.#beginPeriod();
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    this.#tracker.noteService(previous, current);
    this.#syncSoon();
  }

  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    this.#tracker.noteSlice(previous, current);
    this.#syncSoon();
  }

  noteNode(node: NodeRecord | undefined): void {
    this.#parts.health.setNodeEligible(node?.isEligible ?? true);
    const zone = node?.zone ?? "";
    if (zone === this.#place.zone) return;
    this.#place = { ...this.#place, zone };
    this.#tracker.touchAll();
    this.#syncSoon();
  }

  noteSynced(kind: ResourceKind): void {
    this.#lists.note(kind);
    this.#syncSoon();
  }

  /** Resolves when everything that was noted so far is served, or could not be. */
  settled(): Promise<void> {
    return this.#exclusive.run(() => this.#sync());
  }

  /** Listeners close and connections are cut; rules stay until another mode or `--cleanup` removes them. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelSync();
    this.#cancelPeriod();
    await this.#exclusive.idle();
    await this.#parts.proxier.stop();
  }

  #syncSoon(): void {
    if (!this.#lists.isComplete || this.#isPlanned || this.#isStopped) return;
    const { clock, health, families } = this.#parts;
    for (const family of families) health.queued(family);
    this.#isPlanned = true;
    const dueMs = this.#syncedAtMs + this.#config.minSyncPeriodMs;
    this.#cancelSync = clock.after(Math.max(0, dueMs - clock.monotonicMs()), () => {
      this.#isPlanned = false;
      background(this.settled(), this.#parts.log, "syncing");
    });
  }

  /** Reads the rules again, and tries again to listen where a port was taken. */
  #beginPeriod(): void {
    const { clock, portals, proxier, log } = this.#parts;
    this.#cancelPeriod = clock.after(this.#config.syncPeriodMs, () => {
      portals?.forget();
      const all = proxier.retryFailed().then(() => this.settled());
      background(
        all.finally(() => this.#isStopped || this.#beginPeriod()),
        log,
        "syncing",
      );
    });
  }

  async #sync(): Promise<void> {
    if (!this.#lists.isComplete || this.#isStopped) return;
    const { clock, log, proxier, portals, health, families, history } = this.#parts;
    const beganMs = clock.monotonicMs();
    this.#syncedAtMs = beganMs;
    const { services } = this.#tracker.take();
    for (const name of services) {
      const service = this.#tracker.service(name);
      const slices = this.#tracker.slicesOf(name);
      const wanted = service === undefined ? [] : serviceListeners(service, slices, this.#place);
      await proxier.replaceService(name, wanted);
    }
    try {
      await portals?.sync(proxier.open());
    } catch (error) {
      const event = "Cannot write the rules that lead to the listeners, retrying";
      log.error(event, { err: errorText(error) });
      history.noteFailure(`Cannot write rules: ${errorText(error)}`);
      return this.#syncSoon();
    }
    for (const family of families) health.updated(family);
    const isFull = history.last === undefined;
    history.noteWorked({ isFull, elapsedMs: clock.monotonicMs() - beganMs });
    this.#parts.onSynced();
    log.verbose(2, "SyncProxyRules complete", {
      elapsedMs: Math.round(clock.monotonicMs() - beganMs),
      services: services.length,
      listeners: proxier.open().length,
      connections: proxier.openCount,
    });
  }
}
