import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "../api/objects.ts";
import type { ResourceKind } from "../api/source.ts";
import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import { Exclusive } from "../base/exclusive.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import type { Config } from "../config/config.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { ChangeTracker } from "../model/change-tracker.ts";
import { DesiredState } from "../plan/desired-state.ts";
import type { PlanOptions } from "../plan/options.ts";
import { planService } from "../plan/planner.ts";
import { planRules } from "../plan/rules.ts";
import type { DrainAges } from "../reconcile/drains.ts";
import { Reconciler } from "../reconcile/reconciler.ts";
import { changeCount } from "../reconcile/report.ts";
import type { SyncGoal } from "../reconcile/sync-context.ts";
import type { RuleSet } from "../state/rule.ts";
import { type DrainFinding, DrainWatch } from "./drain-watch.ts";
import { healthCheckAddresses, type NodeFacts, planOptionsOf, sameOptions } from "./node-facts.ts";
import {
  apiServerService,
  emptyNetwork,
  endpointAddresses,
  type NodeNetwork,
  readNodeNetwork,
  sameNetwork,
} from "./node-network.ts";
import { QuickChecks } from "./quick-checks.ts";
import { Runner, type RunReason } from "./runner.ts";
import type { ServiceHealthServers } from "./service-health.ts";
import type { SyncReporter } from "./sync-reporter.ts";

export interface SyncLoopCollaborators {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Logger;
  readonly reporter: SyncReporter;
  readonly healthChecks: ServiceHealthServers;
  readonly drainAges?: DrainAges;
  /** Where the API server is, as the connection knows; absent: there is none. */
  readonly apiServerAddresses?: () => readonly IpAddress[];
}

/** Pause after a change of links or addresses before they are read. */
const addressCheckMs = 50;
/** Between two looks at the sizes of our sets. */
const setCheckMs = 5_000;
/** The Node object is waited for this long before planning goes on without it, as upstream. */
const nodeWaitMs = 30_000;
const firstRetryMs = 1_000;

/**
 * The heart of the daemon: takes what the source tells, and from time to time plans what changed and
 * brings the kernel there. Nothing is written before Services and EndpointSlices are completely listed.
 */
export class SyncLoop {
  readonly #config: Config;
  readonly #families: readonly IpFamily[];
  readonly #kernel: Kernel;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #reporter: SyncReporter;
  readonly #apiServerAddresses: () => readonly IpAddress[];
  readonly #healthChecks: ServiceHealthServers;
  readonly #tracker: ChangeTracker;
  readonly #desired = new DesiredState();
  readonly #reconciler: Reconciler;
  readonly #runner: Runner;
  readonly #drainWatch: DrainWatch;
  readonly #quickChecks: QuickChecks;
  /** A sync and a look at the drains never overlap: both change what is known of the kernel. */
  readonly #exclusive = new Exclusive();
  readonly #unsynced = new Set<ResourceKind>(["services", "endpointslices", "nodes"]);
  #node: NodeRecord | undefined;
  #network: NodeNetwork = emptyNetwork;
  #healthCheckAddresses: ReadonlyMap<IpFamily, readonly IpAddress[]> = new Map();
  #options: PlanOptions | undefined;
  /** Node, links or addresses may differ from what `#options` was made of. */
  #isNodeStale = true;
  #cancelNodeWait: () => void = () => {};
  #cancelAddressCheck: () => void = () => {};
  #stopWatching: () => void = () => {};

  constructor(collaborators: SyncLoopCollaborators, config: Config, families: readonly IpFamily[]) {
    this.#config = config;
    this.#families = families;
    this.#kernel = collaborators.kernel;
    this.#clock = collaborators.clock;
    this.#log = collaborators.log;
    this.#reporter = collaborators.reporter;
    this.#apiServerAddresses = collaborators.apiServerAddresses ?? (() => []);
    this.#healthChecks = collaborators.healthChecks;
    this.#tracker = new ChangeTracker(collaborators.clock.nowMs());
    this.#reconciler = new Reconciler(collaborators, {
      ownership: {
        foreignVirtualServers: config.foreignVirtualServers,
        excludeCidrs: config.excludeCidrs,
      },
      drain: config.drain,
    });
    const sync = (reason: RunReason): Promise<boolean> =>
      this.#exclusive.run(() => this.#sync(reason));
    this.#runner = new Runner(sync, collaborators, {
      minIntervalMs: config.minSyncPeriodMs,
      maxIntervalMs: Math.min(config.syncPeriodMs, config.verificationPeriodMs),
      firstRetryMs,
    });
    this.#drainWatch = new DrainWatch(() => this.#checkDrains(), collaborators);
    this.#quickChecks = this.#makeQuickChecks(collaborators);
  }

  start(): void {
    this.#reporter.started(this.#families);
    this.#stopWatching = this.#kernel.link.watch(
      () => this.#scheduleAddressCheck(),
      (error) => this.#log.warn("Cannot watch links and addresses", { err: error }),
    );
    this.#cancelNodeWait = this.#clock.after(nodeWaitMs, () => this.#giveUpNode());
    this.#quickChecks.start();
    this.#runner.start();
  }

  /** Resolves when everything told so far is in the kernel. */
  settled(): Promise<void> {
    return this.#runner.settled();
  }

  /** Ends after the sync that may be running. The kernel keeps its state. */
  async stop(): Promise<void> {
    this.#stopWatching();
    this.#cancelNodeWait();
    this.#drainWatch.stop();
    this.#quickChecks.stop();
    this.#cancelAddressCheck();
    await this.#runner.stop();
    await this.#exclusive.idle();
    await this.#healthChecks.stop();
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    this.#tracker.noteService(previous, current);
    this.#reporter.serviceChanged(this.#families, this.#tracker.pendingCount);
    this.#request();
  }

  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    this.#tracker.noteSlice(previous, current);
    this.#reporter.sliceChanged(this.#tracker.pendingCount);
    if ((current ?? previous)?.service === apiServerService) this.#isNodeStale = true;
    this.#request();
  }

  noteNode(node: NodeRecord | undefined): void {
    this.#reporter.nodeChanged(node);
    // The last object seen counts after a deletion, as upstream.
    if (node !== undefined) this.#node = node;
    this.#noteNodeChange();
  }

  noteSynced(kind: ResourceKind): void {
    this.#unsynced.delete(kind);
    if (kind === "nodes") this.#cancelNodeWait();
    this.#request();
  }

  get #isInitialized(): boolean {
    return this.#unsynced.size === 0;
  }

  #giveUpNode(): void {
    if (!this.#unsynced.has("nodes")) return;
    this.#log.warn("The Node object did not arrive; going on without it", {
      node: this.#config.nodeName,
    });
    this.noteSynced("nodes");
  }

  #noteNodeChange(): void {
    this.#isNodeStale = true;
    this.#request();
  }

  #request(): void {
    if (!this.#isInitialized) return;
    this.#reporter.queued(this.#families);
    this.#runner.request();
  }

  /** Says whether everything worked. */
  async #sync(reason: RunReason): Promise<boolean> {
    if (!this.#isInitialized) return true;
    const startedAtMs = this.#clock.monotonicMs();
    if (reason !== "change") this.#isNodeStale = true;
    await this.#refreshOptions();
    const options = this.#options;
    if (options === undefined) return false;
    const { services, triggeredAtMs } = this.#tracker.take();
    for (const name of services) this.#planService(name, options);
    const isFull = reason !== "change" || this.#reconciler.needsObservation;
    const report = await this.#reconciler.sync(this.#goal(options, isFull));
    this.#reporter.synced({
      families: this.#families,
      report,
      isFull,
      serviceCount: this.#tracker.serviceCount,
      plannedServiceCount: services.length,
      elapsedMs: this.#clock.monotonicMs() - startedAtMs,
      triggeredAtMs,
      desired: this.#desired,
      drains: this.#reconciler.drainer,
    });
    await this.#healthChecks.serve(this.#healthCheckAddresses);
    if (this.#reconciler.needsDrainCheck) this.#drainWatch.wake();
    return report.failures.length === 0;
  }

  /** Reads the node anew where it may have changed; a difference touches every Service. */
  async #refreshOptions(): Promise<void> {
    if (!this.#isNodeStale) return;
    this.#isNodeStale = false;
    try {
      this.#network = await this.#readNetwork();
    } catch (error) {
      this.#isNodeStale = true;
      throw error;
    }
    const facts: NodeFacts = {
      config: this.#config,
      families: this.#families,
      node: this.#node,
      nodeAddresses: this.#network.ofNode,
      reserved: this.#network.reserved,
    };
    this.#healthCheckAddresses = healthCheckAddresses(facts);
    const options = planOptionsOf(facts);
    if (this.#options !== undefined && sameOptions(options, this.#options)) return;
    this.#options = options;
    this.#tracker.touchAll();
  }

  #readNetwork(): Promise<NodeNetwork> {
    const endpoints = endpointAddresses(this.#tracker.slicesOf(apiServerService));
    return readNodeNetwork(this.#kernel, [...this.#apiServerAddresses(), ...endpoints]);
  }

  #planService(name: string, options: PlanOptions): void {
    const service = this.#tracker.service(name);
    for (const plan of planService(name, service, this.#tracker.slicesOf(name), options)) {
      this.#desired.replace(plan.service, plan.family, plan.servicePorts);
      this.#healthChecks.note(plan);
    }
  }

  #goal(options: PlanOptions, isFull: boolean): SyncGoal {
    const dirty = this.#desired.takeDirty();
    return {
      desired: this.#desired,
      dirty: isFull ? "all" : dirty,
      rules: new Map([...options.families.keys()].map((family) => [family, this.#rules(family)])),
      nodeAddresses: this.#network.ofNode,
    };
  }

  #rules(family: IpFamily): RuleSet {
    return planRules({
      family,
      filledSets: this.#desired.filledSets(family),
      deniedToNode: this.#desired.deniedToNode(family),
      localDetector: this.#options?.families.get(family)?.localDetector,
      isMasqueradeAll: this.#config.isMasqueradeAll,
      masqueradeMark: this.#config.masqueradeMark,
    });
  }

  /** Links or addresses changed, by us or by others; many messages are one look. */
  #scheduleAddressCheck(): void {
    this.#cancelAddressCheck();
    if (!this.#isInitialized) return;
    this.#cancelAddressCheck = this.#clock.after(addressCheckMs, () => {
      background(
        this.#exclusive.run(() => this.#checkAddresses()),
        this.#log,
        "address check",
      );
    });
  }

  async #checkAddresses(): Promise<void> {
    const network = await this.#readNetwork();
    this.#reconciler.noteBound(network.bound);
    if (!sameNetwork(network, this.#network)) this.#noteNodeChange();
    else if (this.#reconciler.needsObservation) this.#request();
  }

  /** They wait for nothing and hold up nothing: while a sync runs, there is no look. */
  #makeQuickChecks(collaborators: SyncLoopCollaborators): QuickChecks {
    const whenIdle = (look: () => Promise<readonly string[]>) => (): Promise<readonly string[]> =>
      this.#exclusive.runIfIdle(look, []);
    const checks = [
      {
        name: "sets",
        intervalMs: setCheckMs,
        look: whenIdle(() => this.#reconciler.checkSets()),
      },
      {
        name: "rules",
        intervalMs: this.#config.ruleCheckPeriodMs,
        look: whenIdle(() => this.#reconciler.checkRules()),
      },
    ];
    const onLost = (name: string, lost: readonly string[]): void => {
      this.#reporter.lost(name, lost);
      this.#request();
    };
    return new QuickChecks(checks, onLost, collaborators);
  }

  async #checkDrains(): Promise<DrainFinding> {
    const report = await this.#exclusive.run(() => this.#reconciler.checkDrains(this.#desired));
    this.#reporter.drained(report, this.#reconciler.drainer);
    if (!this.#reconciler.needsDrainCheck) return "nothing";
    return changeCount(report) > 0 ? "ending" : "waiting";
  }
}
