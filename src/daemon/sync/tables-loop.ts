import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "../../api/objects.ts";
import type { NodeAddresses, ResourceKind, ServerEndpoint } from "../../api/source.ts";
import type { Clock } from "../../base/clock.ts";
import { Exclusive } from "../../base/exclusive.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { type NextRun, Periodic } from "../../base/periodic.ts";
import { inSlices, yieldToEventLoop } from "../../base/time-slice.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { IptablesNodeOptions } from "../../plan/iptables/options.ts";
import { TablesPlan } from "../../plan/iptables/tables-plan.ts";
import type { PlanOptions } from "../../plan/options.ts";
import { TablesReconciler, type TablesReport } from "../../reconcile/iptables/tables-reconciler.ts";
import type { SyncReport } from "../../reconcile/report.ts";
import type { ServiceHealthServers } from "../http/service-health.ts";
import { iptablesOptionsOf } from "../node/iptables-facts.ts";
import { KnownNode } from "../node/known-node.ts";
import { apiServerService, sliceEndpoints } from "../node/node-network.ts";
import { NodeWait } from "../node/node-wait.ts";
import { OtherNodes, type OtherNodesParts } from "../node/other-nodes.ts";
import { type PreparedTables, routeLocalnet } from "../node/prepare-tables.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { TablesReporter } from "../report/tables-reporter.ts";
import { AddressWatch } from "./address-watch.ts";
import { InitialLists } from "./initial-lists.ts";
import { Runner, type RunnerOptions } from "./runner.ts";

export interface TablesLoopCollaborators {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Logger;
  readonly reporter: TablesReporter;
  readonly healthChecks: ServiceHealthServers;
  readonly onReport?: (report: SyncReport) => void;
  /** Milliseconds of processor time that the process has used. */
  readonly processorMs?: () => number;
  /** Where the API server is, as the connection knows; absent: there is none. */
  readonly apiServers?: () => readonly ServerEndpoint[];
  /** Where the addresses of other Nodes come from; absent: nobody knows them. */
  readonly source?: OtherNodesParts["source"];
  /** Called once, with the Node object as far as there is one, before the first plan. */
  readonly onNodeReady?: (node: NodeRecord | undefined) => void;
  /** Ends the program, which cannot go on as it is. */
  readonly fail?: (error: Error) => void;
}

/** Most of a processor that checks between syncs may take. */
const checkShare = 0.02;
const mostIntervals = 8;
/** Everything is compared at least this often, whatever tells that nothing changed. */
const fullComparisonMs = 3_600_000;

/**
 * The heart of mode iptables: takes what the source tells, and from time to time plans what changed and writes the chains
 * that are about it. The same Node, lists, runner and health as in mode ipvs; another plan, another reconciler. Nothing
 * is written before Services and EndpointSlices are completely listed.
 */
export class TablesLoop {
  readonly #live: LiveConfig;
  readonly #prepared: PreparedTables;
  readonly #parts: TablesLoopCollaborators;
  readonly #lists = new InitialLists();
  readonly #nodeWait: NodeWait;
  readonly #node: KnownNode;
  readonly #otherNodes: OtherNodes;
  readonly #plan: TablesPlan;
  readonly #reconciler: TablesReconciler;
  readonly #runner: Runner;
  readonly #addressWatch: AddressWatch;
  readonly #checks: readonly Periodic[];
  readonly #exclusive = new Exclusive();
  #nodeOptions: { readonly shared: PlanOptions; readonly own: IptablesNodeOptions } | undefined;
  #comparedAtMs = 0;

  constructor(parts: TablesLoopCollaborators, live: LiveConfig, prepared: PreparedTables) {
    const { kernel, clock, healthChecks } = parts;
    this.#parts = parts;
    this.#live = live;
    this.#prepared = prepared;
    this.#nodeWait = this.#makeNodeWait();
    this.#plan = new TablesPlan({
      startedAtMs: clock.nowMs(),
      onPlan: (plan) => healthChecks.note(plan),
    });
    this.#otherNodes = this.#watchOtherNodes();
    this.#node = new KnownNode({
      kernel,
      live,
      families: prepared.families,
      apiServers: () => [
        ...(parts.apiServers?.() ?? []),
        ...sliceEndpoints(this.#plan.tracker.slicesOf(apiServerService)),
      ],
      otherNodes: () => this.#otherNodes.reserved,
    });
    const { isObserveOnly: isDryRun } = live.current;
    this.#reconciler = new TablesReconciler({ kernel, clock, isDryRun });
    this.#runner = new Runner(() => this.#run(), parts, runnerOptions(live));
    this.#addressWatch = new AddressWatch(
      () => this.#exclusive.run(() => this.#checkAddresses()),
      parts,
    );
    this.#checks = this.#makeChecks();
  }

  /** Families whose programs and kernel parts work here. */
  get families(): readonly IpFamily[] {
    return this.#prepared.families;
  }

  get serviceCount(): number {
    return this.#plan.tracker.serviceCount;
  }

  start(): void {
    this.#parts.reporter.started(this.families);
    this.#nodeWait.start();
    this.#addressWatch.start();
    for (const check of this.#checks) check.start();
    this.#runner.start();
  }

  /** Resolves when everything told so far is in the kernel. */
  settled(): Promise<void> {
    return this.#runner.settled();
  }

  /** Ends after the sync that may be running. The kernel keeps its state. */
  async stop(): Promise<void> {
    this.#nodeWait.stop();
    this.#otherNodes.stop();
    this.#addressWatch.stop();
    for (const check of this.#checks) check.stop();
    await this.#runner.stop();
    await this.#exclusive.idle();
    await this.#parts.healthChecks.stop();
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    this.#otherNodes.noteService(previous, current);
    this.#plan.tracker.noteService(previous, current);
    this.#parts.reporter.serviceChanged(this.families, this.#plan.tracker.pendingCount);
    this.#request();
  }

  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    this.#plan.tracker.noteSlice(previous, current);
    this.#parts.reporter.sliceChanged(this.#plan.tracker.pendingCount);
    // A slice may move away from that Service, or to it.
    const owners = [previous?.service, current?.service];
    if (owners.includes(apiServerService)) this.#node.noteStale();
    this.#request();
  }

  noteNode(node: NodeRecord | undefined): void {
    this.#parts.reporter.nodeChanged(node);
    this.#node.noteRecord(node);
    this.#nodeWait.noteRecord(node);
    this.#request();
  }

  /** All Nodes, where the source tells them. */
  noteNodeAddresses(nodes: NodeAddresses): void {
    this.#otherNodes.noteNodes(nodes);
  }

  noteSynced(kind: ResourceKind): void {
    if (kind === "services") this.#otherNodes.noteListed();
    if (kind === "nodes") this.#nodeWait.noteListed();
    else this.#lists.note(kind);
    this.#request();
  }

  /** The configuration is another one: everything that depends on it is planned again. */
  reconfigured(): void {
    this.#runner.configure(runnerOptions(this.#live));
    this.#node.noteStale();
    this.#nodeOptions = undefined;
    this.#reconciler.invalidate();
    this.#request();
  }

  get #isInitialized(): boolean {
    return this.#lists.isComplete && this.#nodeWait.isReady && this.#otherNodes.isReady;
  }

  #request(): void {
    if (!this.#isInitialized) return;
    this.#parts.reporter.queued(this.families);
    this.#runner.request();
  }

  async #run(): Promise<boolean> {
    // What asked for it has been at work until now.
    await yieldToEventLoop();
    return this.#exclusive.run(() => this.#sync());
  }

  async #sync(): Promise<boolean> {
    if (!this.#isInitialized) return true;
    const { clock, reporter, healthChecks, onReport = () => {} } = this.#parts;
    const startedAtMs = clock.monotonicMs();
    const { families: own } = await this.#refreshOptions();
    const options = this.#nodeOptions?.own as IptablesNodeOptions;
    const { services, triggers } = await inSlices(clock, this.#plan.update(options));
    const report = await this.#reconciler.sync(this.#takeGoal());
    onReport(report);
    reporter.synced({
      report,
      isObserveOnly: this.#live.current.isObserveOnly,
      serviceCount: this.serviceCount,
      plannedServiceCount: services.length,
      elapsedMs: clock.monotonicMs() - startedAtMs,
      triggers,
      desired: this.#plan.desired,
    });
    const hasWorked = report.failures.length === 0;
    this.#noteComparison(report);
    if (!this.#live.current.isObserveOnly) {
      if (hasWorked && own.get("IPv4")?.servesLoopback === true) {
        routeLocalnet(this.#parts.kernel, this.#parts.log);
      }
      await healthChecks.serve(this.#node.healthCheckAddresses);
    }
    return hasWorked;
  }

  /** The same object while nothing in it differs. */
  async #refreshOptions(): Promise<IptablesNodeOptions> {
    const shared = await this.#node.refresh();
    if (this.#nodeOptions?.shared !== shared) {
      // Rules that belong to no Service depend on them, too.
      this.#reconciler.invalidate();
      const { current: config } = this.#live;
      const { hasCounters } = this.#prepared;
      const facts = { config, node: this.#node.record, shared, hasCounters };
      this.#nodeOptions = { shared, own: iptablesOptionsOf(facts) };
    }
    return this.#nodeOptions.own;
  }

  #takeGoal(): Parameters<TablesReconciler["sync"]>[0] {
    return {
      families: this.families.map((family) => ({
        family,
        wanted: () => this.#plan.ruleSet(family),
        touched: this.#plan.takeTouched(family),
      })),
      touchedUdp: this.#plan.desired.takeTouchedUdp(),
    };
  }

  #noteComparison({ families }: TablesReport): void {
    const isCompared = families.every(({ isFull, hasWorked }) => isFull && hasWorked);
    if (isCompared) this.#comparedAtMs = this.#parts.clock.monotonicMs();
  }

  async #checkAddresses(): Promise<void> {
    const { isChanged } = await this.#node.look();
    if (isChanged) this.#request();
  }

  /** Some program changed a rule, a canary is gone, or nobody has looked for an hour: the next sync compares everything. */
  async #compare(): Promise<NextRun> {
    await this.#exclusive.runIfIdle(async () => {
      if (!this.#isInitialized) return;
      const { clock, reporter } = this.#parts;
      const isOverdue = clock.monotonicMs() - this.#comparedAtMs >= fullComparisonMs;
      if (!isOverdue && !(await this.#mayDiffer())) return;
      reporter.comparing();
      this.#reconciler.invalidate();
      this.#request();
    }, undefined);
    return "paced";
  }

  async #mayDiffer(): Promise<boolean> {
    for (const family of this.families) {
      if (await this.#reconciler.mayDiffer(family)) return true;
    }
    return false;
  }

  #makeChecks(): readonly Periodic[] {
    const { processorMs, clock, log } = this.#parts;
    const { ruleCheckPeriodMs, syncPeriodMs } = this.#live.current;
    const intervalMs = ruleCheckPeriodMs > 0 ? ruleCheckPeriodMs : syncPeriodMs;
    const task = {
      name: "check of rules",
      intervalMs,
      maxShare: checkShare,
      longestPauseMs: mostIntervals * intervalMs,
      run: () => this.#compare(),
      ...(processorMs === undefined ? {} : { usedMs: processorMs }),
    };
    return [new Periodic(task, { clock, log })];
  }

  #watchOtherNodes(): OtherNodes {
    const { source = {}, clock, log } = this.#parts;
    const { nodeName, nodeAddressPeriodMs: periodMs } = this.#live.current;
    const onChange = (): void => {
      this.#node.noteStale();
      this.#request();
    };
    const parts = { source, clock, log, nodeName, periodMs, random: Math.random, onChange };
    return new OtherNodes(parts);
  }

  #makeNodeWait(): NodeWait {
    const { onNodeReady = () => {}, fail = () => {} } = this.#parts;
    return new NodeWait({
      ...this.#parts,
      live: this.#live,
      fail,
      onReady: () => {
        onNodeReady(this.#node.record);
        this.#request();
      },
    });
  }
}

/** Pause before a sync that failed is tried again. */
const firstRetryMs = 1_000;

function runnerOptions({ current }: LiveConfig): RunnerOptions {
  const { minSyncPeriodMs: minIntervalMs, syncPeriodMs, verificationPeriodMs } = current;
  const longestRetryMs = Math.min(syncPeriodMs, verificationPeriodMs);
  return { minIntervalMs, firstRetryMs, longestRetryMs };
}
