import { earliest } from "../../base/earliest.ts";
import { Exclusive } from "../../base/exclusive.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import { isAllowedScheduler } from "../../base/scheduler.ts";
import { inSlices, yieldToEventLoop } from "../../base/time-slice.ts";
import { noRampStartTimes, type RampStartTimes } from "../../model/slow-starts.ts";
import { type ClaimMemory, noClaimMemory } from "../../plan/claims/claim-memory.ts";
import { type HolderRecord, noHolderRecord } from "../../plan/claims/holder-record.ts";
import { ClusterPlan } from "../../plan/cluster-plan.ts";
import type { ApplyProgress } from "../../reconcile/apply/apply-plan.ts";
import type { DrainStartTimes } from "../../reconcile/drain/drains.ts";
import type { ServersAhead } from "../../reconcile/observed/servers-ahead.ts";
import type { OwnershipRecord } from "../../reconcile/ownership/ownership.ts";
import { Reconciler } from "../../reconcile/reconciler.ts";
import type { SyncGoal } from "../../reconcile/sync-goal.ts";
import type { LocalhostNodePorts } from "../localhost/localhost-node-ports.ts";
import { AvailableSchedulers } from "../node/available-schedulers.ts";
import type { KnownNode } from "../node/known-node.ts";
import { AllNodeWeights } from "../node/node-weights.ts";
import { sysctlsOf } from "../node/prepare-kernel.ts";
import type { DaemonView } from "../operator/daemon-view.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { SyncReporter } from "../report/sync-reporter.ts";
import { ClusterInput, type LoopParts } from "./cluster-input.ts";
import { findHolders } from "./find-holders.ts";
import { type KernelCheckPeriods, KernelChecks } from "./kernel-checks.ts";
import { PlanAhead } from "./plan-ahead.ts";
import { RetryTimer } from "./retry-timer.ts";
import { Runner, runnerOptions } from "./runner.ts";

export interface SyncLoopParts extends LoopParts {
  readonly reporter: SyncReporter;
  /** If undefined, a restart does not know when drains began. */
  readonly drainStartTimes?: DrainStartTimes;
  /** If undefined, a restart does not know which endpoints are new. */
  readonly rampStartTimes?: RampStartTimes;
  /** If undefined, a restart knows only what the kernel's sets say. */
  readonly ownershipRecord?: OwnershipRecord;
  /** If undefined, node ports are not served on loopback addresses. */
  readonly localhostNodePorts?: LocalhostNodePorts;
}

/**
 * The heart of the daemon: takes what the source reports, and from time to time plans what changed and
 * brings the kernel there. Nothing is written before Services and EndpointSlices are completely listed.
 */
export class SyncLoop {
  readonly #parts: SyncLoopParts;
  readonly #live: LiveConfig;
  readonly #families: readonly IpFamily[];
  readonly #isObserveOnly: boolean;
  /** What the source reports. */
  readonly input: ClusterInput;
  readonly #schedulers: AvailableSchedulers;
  readonly #rampStartTimes: RampStartTimes;
  readonly #holderRecord: HolderRecord;
  readonly #claimMemory: ClaimMemory;
  readonly #plan: ClusterPlan;
  readonly #reconciler: Reconciler;
  readonly #runner: Runner;
  readonly #checks: KernelChecks;
  readonly #exclusive = new Exclusive();
  readonly #retry: RetryTimer;
  readonly #planAhead: PlanAhead;
  #lastGoal: SyncGoal | undefined;
  readonly #nodeWeights = new AllNodeWeights();

  constructor(parts: SyncLoopParts, live: LiveConfig, families: readonly IpFamily[]) {
    const { kernel, clock, log, reporter, healthChecks, localhostNodePorts } = parts;
    this.#parts = parts;
    this.#live = live;
    this.#families = families;
    this.#isObserveOnly = live.current.isObserveOnly;
    this.#rampStartTimes = parts.rampStartTimes ?? noRampStartTimes;
    this.#holderRecord = parts.holderRecord ?? noHolderRecord;
    this.#claimMemory = parts.claimMemory ?? noClaimMemory();
    this.#plan = new ClusterPlan({
      held: this.#holderRecord.held,
      limits: live.current.limits,
      claims: this.#claimMemory,
      startedAtMs: clock.nowMs(),
      onPlan: (plan) => {
        healthChecks.note(plan);
        localhostNodePorts?.note(plan);
      },
      recallRamp: (key) => this.#rampStartTimes.recall(key),
    });
    this.input = new ClusterInput(parts, {
      live,
      families,
      tracker: this.#plan.tracker,
      reporter,
      onService: (previous, current) => this.#schedulers.noteService(previous, current),
      onChange: () => this.#request(),
      onListed: (counts) => reporter.firstSync.listed(counts),
      areWeightsDefault: () => this.#live.current.tuning.weights === "node",
    });
    this.#planAhead = new PlanAhead({
      ...{ clock, log, plan: this.#plan, node: this.input.node },
      exclusive: this.#exclusive,
      isListing: () => this.input.isListing,
    });
    this.#schedulers = new AvailableSchedulers({
      ...{ ipvs: kernel.ipvs, clock, families },
      isAllowed: (name) => isAllowedScheduler(name, live.current.extraSchedulers),
    });
    this.#reconciler = new Reconciler({ ...parts, isDryRun: this.#isObserveOnly });
    this.#runner = this.#makeRunner();
    this.#retry = new RetryTimer(clock, () => this.#runner.request());
    this.#checks = this.#makeChecks();
  }

  start(): void {
    this.#parts.reporter.started(this.#families);
    // Whoever observes meets the failure again.
    this.readServers().catch(() => undefined);
    this.input.start();
    this.#checks.start();
    this.#runner.start();
  }

  /** Before the first sync: virtual and real servers in the kernel, read once for whoever asks and for the sync. */
  readServers(): ReturnType<ServersAhead["read"]> {
    return this.#reconciler.serversAhead.read();
  }

  /** Addresses on kube-ipvs0, as read last; undefined where there is no such link. */
  async readBound(): Promise<readonly IpAddress[] | undefined> {
    await this.#exclusive.run(() => this.#node.refresh());
    return this.#node.bound;
  }

  /** Resolves when everything reported so far is in the kernel. */
  settled(): Promise<void> {
    return this.#runner.settled();
  }

  /** Ends after the sync that may be running. The kernel keeps its state. */
  async stop(): Promise<void> {
    this.input.stop();
    this.#checks.stop();
    this.#retry.stop();
    await this.#runner.stop();
    await this.#exclusive.idle();
    await this.#parts.healthChecks.stop();
    await this.#parts.localhostNodePorts?.stop();
  }

  /** For whoever only reads. */
  get view(): Pick<DaemonView, "plan" | "reconciler" | "history"> {
    return {
      plan: this.#plan,
      reconciler: this.#reconciler,
      history: this.#parts.reporter.history,
    };
  }

  /** The configuration is another one: everything that depends on it is planned again. */
  reconfigured(): void {
    this.#runner.configure(runnerOptions(this.#live));
    this.#checks.configure(this.#checkPeriods);
    this.input.reconfigured();
    this.#reconciler.invalidate();
    this.#request();
  }

  get #node(): KnownNode {
    return this.input.node;
  }

  #request(): void {
    if (!this.input.isReady) {
      this.#planAhead.note();
      return;
    }
    this.#parts.reporter.queued(this.#families);
    this.#runner.request();
  }

  /** Says whether the sync ran and the kernel answers. */
  async #sync(onProgress?: ApplyProgress): Promise<boolean> {
    if (!this.input.isReady) return true;
    const { kernel, clock, reporter, healthChecks, localhostNodePorts } = this.#parts;
    const startedAtMs = clock.monotonicMs();
    const options = await this.#node.refresh();
    const weights = this.#nodeWeights.of(this.input.nodeWeights, this.#node.record);
    this.#plan.noteNodeWeights(weights, options);
    this.#plan.noteMissingSchedulers(await this.#schedulers.refresh());
    const planning = this.#plan.update(options, startedAtMs);
    const { services, triggers } = await inSlices(clock, planning);
    const ramps = this.#plan.takeRamps();
    if (ramps !== undefined && !this.#isObserveOnly) this.#rampStartTimes.keep(ramps);
    const isFull = this.#isObserveOnly || this.#reconciler.needsObservation;
    if (this.#lastGoal === undefined) await findHolders(this.#plan.desired, kernel.ipvs);
    const goal = this.#takeGoal();
    this.#lastGoal = goal;
    const report = await this.#reconciler.sync(goal, onProgress);
    // Only who writes to the kernel decides whom it serves.
    if (!this.#isObserveOnly) {
      const ofPorts = healthChecks.claims.contestedHolders();
      this.#holderRecord.keepHolders(this.#plan.desired.claims.contestedHolders(), ofPorts);
      const claimRecord = this.#claimMemory.ages.takeRecord();
      if (claimRecord !== undefined) this.#claimMemory.keep(claimRecord);
    }
    this.#parts.onReport?.(report);
    reporter.synced({
      families: this.#families,
      report,
      isFull,
      isObserveOnly: this.#isObserveOnly,
      serviceCount: this.#plan.tracker.serviceCount,
      plannedServiceCount: services.length,
      elapsedMs: clock.monotonicMs() - startedAtMs,
      triggers,
      desired: this.#plan.desired,
      lostHealthPorts: healthChecks.claims.lost(),
      limitedServices: this.#plan.tracker.limitedServices(),
      annotationProblems: this.#plan.annotationProblems,
      drains: this.#reconciler.drainer,
    });
    if (!this.#isObserveOnly) {
      await healthChecks.serve(this.#node.healthCheckAddresses);
      await localhostNodePorts?.serve(options);
    }
    this.#checks.synced();
    const hasWorked = report.failures.length === 0;
    // Rejected changes, missing schedulers and reverted repairs are retried; weights grow. A failed sync is repeated anyway.
    const { nextRetryMs } = this.#reconciler;
    const dueMs = earliest([nextRetryMs, this.#schedulers.nextCheckMs, this.#plan.nextRampMs]);
    this.#retry.at(hasWorked ? dueMs : undefined);
    return hasWorked;
  }

  #takeGoal(): SyncGoal {
    const config = this.#live.current;
    const { foreignVirtualServers, excludeCidrs, drain, manualWeights } = config;
    const isMissing =
      this.#isObserveOnly && this.#parts.kernel.modules.isAvailable("ip_vs") === false;
    return {
      ...this.#plan.takeGoal(),
      desired: this.#plan.desired,
      sysctls: sysctlsOf(config),
      missingModules: isMissing ? ["ip_vs"] : [],
      nodeAddresses: this.#node.addresses,
      ownership: { foreignVirtualServers, excludeCidrs },
      drain,
      manualWeights,
    };
  }

  #makeRunner(): Runner {
    const sync = async (): Promise<boolean> => {
      // What asked for it has been at work until now: reading and decoding an event of 250 endpoints takes milliseconds.
      await yieldToEventLoop();
      const { firstSync } = this.#parts.reporter;
      return this.#exclusive.run(() => firstSync.watch((onProgress) => this.#sync(onProgress)));
    };
    return new Runner(sync, this.#parts, runnerOptions(this.#live));
  }

  #makeChecks(): KernelChecks {
    return new KernelChecks(
      {
        ...this.#parts,
        reconciler: this.#reconciler,
        node: this.#node,
        exclusive: this.#exclusive,
        lastGoal: () => this.#lastGoal,
        requestSync: () => this.#request(),
      },
      this.#checkPeriods,
    );
  }

  get #checkPeriods(): KernelCheckPeriods {
    const { ruleCheckPeriodMs, syncPeriodMs, verificationPeriodMs } = this.#live.current;
    return {
      ruleCheckMs: ruleCheckPeriodMs,
      verificationMs: Math.min(syncPeriodMs, verificationPeriodMs),
    };
  }
}
