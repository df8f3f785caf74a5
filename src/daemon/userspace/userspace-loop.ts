import type { ServiceName } from "../../api/objects.ts";
import { errorText } from "../../base/error-text.ts";
import type { IpFamily } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { type NextRun, Periodic } from "../../base/periodic.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import { ChangeTracker } from "../../model/change-tracker.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { NodePlace } from "../../model/topology.ts";
import { type ClaimMemory, noClaimMemory } from "../../plan/claims/claim-memory.ts";
import type { HolderRecord } from "../../plan/claims/holder-record.ts";
import { type Frontend, frontendsOf } from "../../plan/frontends.ts";
import type { PlanOptions } from "../../plan/options.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import type { UserspaceProxier } from "../../userspace/proxier.ts";
import {
  type ServiceListener,
  serviceListenersInSteps,
} from "../../userspace/service-listeners.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { ConflictReporter } from "../report/conflict-reporter.ts";
import { conflictsOf } from "../report/conflicts.ts";
import type { ProxyHealth } from "../report/proxy-health.ts";
import type { SyncHistory } from "../report/sync-history.ts";
import { ClusterInput, type ClusterInputCollaborators } from "../sync/cluster-input.ts";
import { Runner, runnerOptions } from "../sync/runner.ts";
import type { ListenerFlows } from "./listener-flows.ts";
import { PortalClaims } from "./portal-claims.ts";
import { findPortalHolders, readServedByPortals } from "./portal-holders.ts";
import type { Portals } from "./portals.ts";

/** Sockets that serve; see {@link UserspaceProxier}. */
export type Listeners = Pick<
  UserspaceProxier,
  "open" | "isOpen" | "openCount" | "replaceServices" | "retryFailed" | "stop"
>;

/** See {@link Portals}. */
export type RulesToListeners = Pick<Portals, "sync" | "forget">;

export interface UserspaceLoopParts extends ClusterInputCollaborators {
  readonly health: ProxyHealth;
  readonly proxier: Listeners;
  /** If undefined, there are only listeners. */
  readonly portals: RulesToListeners | undefined;
  /** Undefined if no rule leads anywhere or nothing is written. */
  readonly flows?: Pick<ListenerFlows, "follow">;
  /** Undefined if there is none. */
  readonly iptables?: Pick<Iptables, "observe">;
  readonly families: readonly IpFamily[];
  readonly history: SyncHistory;
  readonly conflicts: Pick<ConflictReporter, "report">;
  readonly holderRecord: HolderRecord;
  /** If undefined, all claims are equally old and admitted. */
  readonly claimMemory?: ClaimMemory;
  /** Called after each sync that worked. */
  readonly onSynced: () => void;
}

/** Brings listeners, then rules, in line with Services and endpoints: what changed soon, everything now and then. */
export class UserspaceLoop {
  readonly #parts: UserspaceLoopParts;
  readonly #live: LiveConfig;
  readonly #tracker: ChangeTracker;
  /** What the source reports. */
  readonly input: ClusterInput;
  readonly #runner: Runner;
  readonly #period: Periodic;
  readonly #claims: PortalClaims;
  readonly #claimMemory: ClaimMemory;
  #isSettled = false;
  /** Those of the last sync; undefined: there was none. */
  #options: PlanOptions | undefined;

  constructor(parts: UserspaceLoopParts, live: LiveConfig) {
    this.#claimMemory = parts.claimMemory ?? noClaimMemory();
    this.#claims = new PortalClaims(parts.holderRecord.held, this.#claimMemory.ages);
    this.#parts = parts;
    this.#live = live;
    this.#runner = new Runner(() => this.#sync(), parts, runnerOptions(live));
    this.#period = new Periodic(
      {
        name: "sync of everything",
        intervalMs: live.current.syncPeriodMs,
        maxShare: 1,
        run: () => this.#refresh(),
      },
      parts,
    );
    this.#tracker = new ChangeTracker(parts.clock.nowMs(), live.current.limits);
    const { families, health } = parts;
    this.input = new ClusterInput(parts, {
      ...{ live, families, tracker: this.#tracker },
      reporter: {
        serviceChanged() {},
        sliceChanged() {},
        nodeChanged: (node) => node && health.setNodeEligible(node.isEligible),
      },
      readServed: async () =>
        parts.iptables === undefined ? none : readServedByPortals(parts.iptables, families),
      onChange: () => this.#request(),
    });
  }

  /** Objects as last known. */
  get objects(): ChangeTracker {
    return this.#tracker;
  }

  /** What is known of the node and the configuration, as of the last sync; undefined before the first one. */
  get options(): PlanOptions | undefined {
    return this.#options;
  }

  /** Where this node stood at the last sync. */
  get place(): NodePlace {
    return this.#options?.place ?? { nodeName: this.#live.current.nodeName, zone: "" };
  }

  /** Where rules may lead to a service port: without node ports, which are at every address. */
  frontends(port: ServicePort): readonly Frontend[] {
    const options = this.#options?.families.get(port.family);
    return options === undefined
      ? none
      : frontendsOf(port, { ...options, nodePortAddresses: none });
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
    this.input.start();
    this.#runner.start();
    this.#period.start();
  }

  /** Resolves when everything that was noted so far is served. */
  settled(): Promise<void> {
    return this.#runner.settled();
  }

  /** Listeners close and connections are cut; rules stay until another mode or `--cleanup` removes them. */
  async stop(): Promise<void> {
    this.input.stop();
    this.#period.stop();
    await this.#runner.stop();
    await this.#parts.proxier.stop();
  }

  #request(): void {
    if (!this.input.isReady) return;
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
    if (!this.input.isReady) return true;
    const beganMs = clock.monotonicMs();
    const options = await this.#refreshOptions();
    const { services } = this.#tracker.take();
    const changed = await inSlices(clock, this.#plan(services, options));
    await proxier.replaceServices(changed);
    try {
      await this.#settleClaims();
      const open = this.open();
      const wereRulesMissing = (await portals?.sync(open)) === true;
      await flows?.follow(open, [...this.input.node.addresses], wereRulesMissing);
    } catch (error) {
      const event = "Cannot write the rules that redirect to the listeners, retrying";
      log.error(event, { err: errorText(error) });
      history.noteFailure(`Cannot write rules: ${errorText(error)}`);
      return false;
    }
    for (const family of families) health.updated(family);
    const isFull = history.last === undefined;
    history.noteWorked({ isFull, elapsedMs: clock.monotonicMs() - beganMs });
    const { waitingClaims } = this.input;
    const desired = {
      claims: this.#claims,
      reservedAddresses: () => this.#claims.unservedAddresses(),
    };
    const limitedServices = this.#tracker.limitedServices();
    const claimed = { desired, waitingClaims, limitedServices, lostHealthPorts: none };
    this.#parts.conflicts.report(conflictsOf(claimed, none));
    this.#parts.holderRecord.keepHolders(this.#claims.contestedHolders());
    const claimRecord = this.#claimMemory.ages.takeRecord();
    if (claimRecord !== undefined && !this.#live.current.isObserveOnly)
      this.#claimMemory.keep(claimRecord);
    this.#parts.onSynced();
    log.verbose(2, "SyncProxyRules complete", {
      elapsedMs: Math.round(clock.monotonicMs() - beganMs),
      services: services.length,
      listeners: proxier.open().length,
      connections: proxier.openCount,
    });
    return true;
  }

  /** Yields after each slice, service port and Service. */
  *#plan(
    services: Iterable<ServiceName>,
    options: PlanOptions,
  ): Generator<void, ReadonlyMap<ServiceName, readonly ServiceListener[]>> {
    const { admission } = this.#claimMemory;
    admission.refresh();
    const changed = new Map<ServiceName, readonly ServiceListener[]>();
    for (const name of services) {
      const service = this.#tracker.service(name);
      const slices = this.#tracker.slicesOf(name);
      const wanted =
        service === undefined
          ? none
          : yield* serviceListenersInSteps(service, slices, options, admission);
      this.#claims.replaceService(name, wanted);
      changed.set(name, wanted);
      yield;
    }
    return changed;
  }

  /** From now on every Service holds the addresses that it has; at first those to which the rules lead that are there. */
  async #settleClaims(): Promise<void> {
    const { iptables, families } = this.#parts;
    if (!this.#isSettled && iptables !== undefined)
      await findPortalHolders(this.#claims, iptables, families);
    this.#claims.settle();
    this.#isSettled = true;
  }

  /** Addresses are read again; everything is planned again if they or the Node differ. */
  async #refreshOptions(): Promise<PlanOptions> {
    this.input.node.noteStale();
    const options = await this.input.node.refresh();
    if (options !== this.#options) this.#tracker.touchAll();
    this.#options = options;
    return options;
  }
}
