import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "../api/objects.ts";
import type { ResourceKind } from "../api/source.ts";
import type { Clock } from "../base/clock.ts";
import { Exclusive } from "../base/exclusive.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import type { SpareMemory } from "../base/spare-memory.ts";
import { inSlices, othersTurn } from "../base/time-slice.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { DrainAges } from "../reconcile/drains.ts";
import { Reconciler } from "../reconcile/reconciler.ts";
import { ClusterPlan } from "./cluster-plan.ts";
import { InitialLists } from "./initial-lists.ts";
import { KernelChecks } from "./kernel-checks.ts";
import { KnownNode } from "./known-node.ts";
import { type LiveConfig, liveReconcilerOptions, liveRunnerOptions } from "./live-config.ts";
import { apiServerService } from "./node-network.ts";
import { NodeWait } from "./node-wait.ts";
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
  /** Called once, with the Node object as far as there is one, before the first plan. */
  readonly onNodeReady?: (node: NodeRecord | undefined) => void;
  /** Gives back memory that was needed until now; absent: it stays. */
  readonly spareMemory?: SpareMemory;
  /** Ends the program, which cannot go on as it is. */
  readonly fail?: (error: Error) => void;
}

/**
 * The heart of the daemon: takes what the source tells, and from time to time plans what changed and
 * brings the kernel there. Nothing is written before Services and EndpointSlices are completely listed.
 */
export class SyncLoop {
  readonly #families: readonly IpFamily[];
  readonly #isObserveOnly: boolean;
  readonly #clock: Clock;
  readonly #reporter: SyncReporter;
  readonly #healthChecks: ServiceHealthServers;
  readonly #spareMemory: SpareMemory;
  readonly #lists = new InitialLists();
  readonly #nodeWait: NodeWait;
  readonly #node: KnownNode;
  readonly #plan: ClusterPlan;
  readonly #reconciler: Reconciler;
  readonly #runner: Runner;
  readonly #checks: KernelChecks;
  readonly #exclusive = new Exclusive();

  constructor(
    collaborators: SyncLoopCollaborators,
    live: LiveConfig,
    families: readonly IpFamily[],
  ) {
    const { kernel, clock, reporter, healthChecks, apiServerAddresses } = collaborators;
    this.#families = families;
    this.#isObserveOnly = live.current.isObserveOnly;
    this.#clock = clock;
    this.#reporter = reporter;
    this.#healthChecks = healthChecks;
    this.#spareMemory = collaborators.spareMemory ?? (() => {});
    this.#nodeWait = this.#makeNodeWait(collaborators, live);
    this.#plan = new ClusterPlan({
      live,
      startedAtMs: clock.nowMs(),
      onPlan: (plan) => healthChecks.note(plan),
    });
    const apiServers = (): readonly IpAddress[] => [
      ...(apiServerAddresses?.() ?? []),
      ...this.#plan.apiServerAddresses(),
    ];
    this.#node = new KnownNode({ kernel, live, families, apiServers });
    this.#reconciler = new Reconciler(collaborators, liveReconcilerOptions(live));
    this.#runner = this.#makeRunner(collaborators, live);
    this.#checks = this.#makeChecks(collaborators, live);
  }

  start(): void {
    this.#reporter.started(this.#families);
    this.#nodeWait.start();
    this.#checks.start();
    this.#runner.start();
  }

  /** Resolves when everything told so far is in the kernel. */
  settled(): Promise<void> {
    return this.#runner.settled();
  }

  /** Ends after the sync that may be running. The kernel keeps its state. */
  async stop(): Promise<void> {
    this.#nodeWait.stop();
    this.#checks.stop();
    await this.#runner.stop();
    await this.#exclusive.idle();
    await this.#healthChecks.stop();
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    this.#plan.noteService(previous, current);
    this.#reporter.serviceChanged(this.#families, this.#plan.pendingCount);
    this.#request();
  }

  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    this.#plan.noteSlice(previous, current);
    this.#reporter.sliceChanged(this.#plan.pendingCount);
    // A slice may move away from that Service, or to it.
    const owners = [previous?.service, current?.service];
    if (owners.includes(apiServerService)) this.#node.noteStale();
    this.#request();
  }

  noteNode(node: NodeRecord | undefined): void {
    this.#reporter.nodeChanged(node);
    this.#node.noteRecord(node);
    this.#nodeWait.noteRecord(node);
    this.#request();
  }

  noteSynced(kind: ResourceKind): void {
    if (kind === "nodes") this.#nodeWait.noteListed();
    else this.#lists.note(kind);
    this.#request();
  }

  /** The configuration is another one: everything that hangs on it is planned anew. */
  reconfigured(): void {
    this.#node.noteStale();
    this.#reconciler.doubt();
    this.#request();
  }

  get #isInitialized(): boolean {
    return this.#lists.isComplete && this.#nodeWait.isReady;
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
    if (reason !== "change") this.#node.noteStale();
    const options = await this.#node.refresh();
    const { services, triggers } = await inSlices(this.#clock, this.#plan.update(options));
    const isFull = await this.#mustCompareAll(reason);
    const goal = this.#plan.takeGoal(this.#node.addresses, isFull);
    const report = await this.#reconciler.sync(goal);
    this.#reporter.synced({
      families: this.#families,
      report,
      isFull: isFull || reason === "period",
      isObserveOnly: this.#isObserveOnly,
      serviceCount: this.#plan.serviceCount,
      plannedServiceCount: services.length,
      elapsedMs: this.#clock.monotonicMs() - startedAtMs,
      triggers,
      desired: this.#plan.desired,
      drains: this.#reconciler.drainer,
    });
    if (!this.#isObserveOnly) await this.#healthChecks.serve(this.#node.healthCheckAddresses);
    this.#checks.synced();
    const hasWorked = report.failures.length === 0;
    // What only lists and large syncs run may be a third of the memory.
    if (isFull && hasWorked && !this.#isObserveOnly) this.#spareMemory("after-full-sync");
    return hasWorked;
  }

  /** A period in which nobody changed anything is the common case: it costs a look, and no comparison. */
  async #mustCompareAll(reason: RunReason): Promise<boolean> {
    const { bound, addresses } = this.#node;
    if (reason === "period") this.#reconciler.noteBound(bound);
    if (this.#isObserveOnly || this.#reconciler.needsObservation) return true;
    if (reason !== "period") return reason === "retry";
    return !(await this.#reconciler.confirm(addresses));
  }

  #makeNodeWait(collaborators: SyncLoopCollaborators, live: LiveConfig): NodeWait {
    const { onNodeReady = () => {}, fail = () => {} } = collaborators;
    return new NodeWait({
      ...collaborators,
      live,
      fail,
      onReady: () => {
        onNodeReady(this.#node.record);
        this.#request();
      },
    });
  }

  #makeRunner(collaborators: SyncLoopCollaborators, live: LiveConfig): Runner {
    const sync = async (reason: RunReason): Promise<boolean> => {
      // What asked for it has been at work until now: reading and decoding an event of 250 endpoints takes milliseconds.
      await othersTurn();
      return this.#exclusive.run(() => this.#sync(reason));
    };
    return new Runner(sync, collaborators, liveRunnerOptions(live));
  }

  #makeChecks(collaborators: SyncLoopCollaborators, live: LiveConfig): KernelChecks {
    return new KernelChecks(
      {
        ...collaborators,
        reconciler: this.#reconciler,
        node: this.#node,
        desired: this.#plan.desired,
        exclusive: this.#exclusive,
        onFound: () => this.#request(),
      },
      live.current.ruleCheckPeriodMs,
    );
  }
}
