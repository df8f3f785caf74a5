import { isDeepStrictEqual } from "node:util";
import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "../../api/objects.ts";
import type { ResourceKind } from "../../api/source.ts";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import { type NextRun, Periodic } from "../../base/periodic.ts";
import type { Config } from "../../config/config.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import { ChangeTracker } from "../../model/change-tracker.ts";
import type { NodePlace } from "../../model/topology.ts";
import type { HolderRecord } from "../../plan/claims/holder-record.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import type { UserspaceProxier } from "../../userspace/proxier.ts";
import { type ServiceListener, serviceListeners } from "../../userspace/service-listeners.ts";
import type { ConflictReporter } from "../report/conflict-reporter.ts";
import { claimConflict } from "../report/conflicts.ts";
import type { ProxyHealth } from "../report/proxy-health.ts";
import type { SyncHistory } from "../report/sync-history.ts";
import { Runner, runnerOptions } from "../sync/runner.ts";
import type { ListenerFlows } from "./listener-flows.ts";
import { PortalClaims } from "./portal-claims.ts";
import { findPortalHolders } from "./portal-holders.ts";
import type { Portals } from "./portals.ts";

/** Sockets that serve; see {@link UserspaceProxier}. */
export type Listeners = Pick<
  UserspaceProxier,
  "open" | "isOpen" | "openCount" | "replaceServices" | "retryFailed" | "stop"
>;

/** See {@link Portals}. */
export type RulesToListeners = Pick<Portals, "sync" | "forget">;

export interface UserspaceLoopParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly health: ProxyHealth;
  readonly proxier: Listeners;
  /** Absent: listeners alone. */
  readonly portals: RulesToListeners | undefined;
  /** Absent: no rule leads anywhere, or nothing is written. */
  readonly flows?: Pick<ListenerFlows, "follow">;
  /** Absent: there is none. */
  readonly iptables?: Pick<Iptables, "observe">;
  readonly families: readonly IpFamily[];
  readonly history: SyncHistory;
  readonly conflicts: Pick<ConflictReporter, "report">;
  readonly holderRecord: HolderRecord;
  /** Of all links but loopback, as they are now. */
  readonly nodeAddresses: () => readonly IpAddress[];
  /** Called after each sync that worked. */
  readonly onSynced: () => void;
}

type LoopConfig = Pick<
  Config,
  "nodeName" | "syncPeriodMs" | "minSyncPeriodMs" | "verificationPeriodMs"
>;

/** Brings listeners, then rules, in line with Services and endpoints: what changed soon, everything now and then. */
export class UserspaceLoop {
  readonly #parts: UserspaceLoopParts;
  readonly #tracker: ChangeTracker;
  readonly #unlisted = new Set<ResourceKind>(["services", "endpointslices"]);
  readonly #runner: Runner;
  readonly #period: Periodic;
  #place: NodePlace;
  readonly #claims: PortalClaims;
  #isSettled = false;
  #nodeAddresses: readonly IpAddress[] = none;

  constructor(parts: UserspaceLoopParts, config: LoopConfig) {
    this.#claims = new PortalClaims(parts.holderRecord.held);
    this.#parts = parts;
    this.#runner = new Runner(() => this.#sync(), parts, runnerOptions({ current: config }));
    this.#period = new Periodic(
      {
        name: "sync of everything",
        intervalMs: config.syncPeriodMs,
        maxShare: 1,
        run: () => this.#refresh(),
      },
      parts,
    );
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

  /** Who has which address and port. */
  get claims(): Pick<PortalClaims, "lostTo"> {
    return this.#claims;
  }

  /** What is listened for, each with the addresses that rules lead to it. */
  open(): readonly OpenListener[] {
    return this.#parts.proxier.open().map(({ wanted, localPorts }) => {
      return { wanted: this.#claims.won(wanted), localPorts };
    });
  }

  start(): void {
    for (const family of this.#parts.families) this.#parts.health.started(family);
    this.#runner.start();
    this.#period.start();
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    this.#tracker.noteService(previous, current);
    this.#request();
  }

  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    this.#tracker.noteSlice(previous, current);
    this.#request();
  }

  /** The last object seen counts after a deletion, as in other modes. */
  noteNode(node: NodeRecord | undefined): void {
    if (node === undefined) {
      const { nodeName } = this.#place;
      this.#parts.log.warn("Node object deleted, using its last known state", { node: nodeName });
      return;
    }
    this.#parts.health.setNodeEligible(node.isEligible);
    const zone = node.zone ?? "";
    if (zone === this.#place.zone) return;
    this.#place = { ...this.#place, zone };
    this.#tracker.touchAll();
    this.#request();
  }

  noteSynced(kind: ResourceKind): void {
    this.#unlisted.delete(kind);
    this.#request();
  }

  /** Resolves when everything that was noted so far is served. */
  settled(): Promise<void> {
    return this.#runner.settled();
  }

  /** Listeners close and connections are cut; rules stay until another mode or `--cleanup` removes them. */
  async stop(): Promise<void> {
    this.#period.stop();
    await this.#runner.stop();
    await this.#parts.proxier.stop();
  }

  #request(): void {
    if (this.#unlisted.size > 0) return;
    const { health, families } = this.#parts;
    for (const family of families) health.queued(family);
    this.#runner.request();
  }

  /** Reads the rules again, and tries again to listen where a port was taken. */
  async #refresh(): Promise<NextRun> {
    const { portals, proxier } = this.#parts;
    portals?.forget();
    await proxier.retryFailed();
    this.#request();
    return "soon";
  }

  /** Says whether all rules could be written. */
  async #sync(): Promise<boolean> {
    const { clock, log, proxier, portals, flows, health, families, history } = this.#parts;
    const beganMs = clock.monotonicMs();
    this.#refreshAddresses();
    const { services } = this.#tracker.take();
    const changed = new Map<string, readonly ServiceListener[]>();
    for (const name of services) {
      const service = this.#tracker.service(name);
      const slices = this.#tracker.slicesOf(name);
      const wanted = service === undefined ? [] : serviceListeners(service, slices, this.#place);
      this.#claims.replaceService(name, wanted, this.#nodeAddresses);
      changed.set(name, wanted);
    }
    await proxier.replaceServices(changed);
    try {
      await this.#settleClaims();
      const open = this.open();
      const wereRulesMissing = (await portals?.sync(open)) === true;
      await flows?.follow(open, this.#nodeAddresses, wereRulesMissing);
    } catch (error) {
      const event = "Cannot write the rules that redirect to the listeners, retrying";
      log.error(event, { err: errorText(error) });
      history.noteFailure(`Cannot write rules: ${errorText(error)}`);
      return false;
    }
    for (const family of families) health.updated(family);
    const isFull = history.last === undefined;
    history.noteWorked({ isFull, elapsedMs: clock.monotonicMs() - beganMs });
    this.#parts.conflicts.report(this.#claims.lost().map(claimConflict));
    this.#parts.holderRecord.keepHolders(this.#claims.contestedHolders());
    this.#parts.onSynced();
    log.verbose(2, "SyncProxyRules complete", {
      elapsedMs: Math.round(clock.monotonicMs() - beganMs),
      services: services.length,
      listeners: proxier.open().length,
      connections: proxier.openCount,
    });
    return true;
  }

  /** From now on every Service holds the addresses that it has; at first those to which the rules lead that are there. */
  async #settleClaims(): Promise<void> {
    const { iptables, families } = this.#parts;
    if (!this.#isSettled && iptables !== undefined)
      await findPortalHolders(this.#claims, iptables, families);
    this.#claims.settle();
    this.#isSettled = true;
  }

  /** Node ports are at other addresses than before: who has them is decided again. */
  #refreshAddresses(): void {
    const addresses = this.#parts.nodeAddresses();
    if (isDeepStrictEqual(addresses, this.#nodeAddresses)) return;
    this.#nodeAddresses = addresses;
    this.#tracker.touchAll();
  }
}
