import type { ServiceName } from "../../api/objects.ts";
import { background } from "../../base/background.ts";
import { earliest } from "../../base/earliest.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import { isAllowedScheduler } from "../../base/scheduler.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { PendingChanges } from "../../model/change-tracker.ts";
import { noRampStartTimes, type RampStartTimes } from "../../model/slow-starts.ts";
import { ClusterPlan } from "../../plan/cluster-plan.ts";
import type { PlanOptions } from "../../plan/options.ts";
import type { ApplyProgress } from "../../reconcile/apply/pass.ts";
import type { DrainStartTimes } from "../../reconcile/drain/drains.ts";
import type { ServersAhead } from "../../reconcile/observed/servers-ahead.ts";
import type { OwnershipRecord } from "../../reconcile/ownership/ownership.ts";
import { Reconciler } from "../../reconcile/reconciler.ts";
import type { SyncGoal } from "../../reconcile/sync-goal.ts";
import type { LocalhostNodePorts } from "../localhost/localhost-node-ports.ts";
import { AvailableSchedulers } from "../node/available-schedulers.ts";
import { sysctlsOf } from "../node/prepare-kernel.ts";
import { Tunnels } from "../node/tunnels.ts";
import type { DaemonView } from "../operator/daemon-view.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { NumberRecord } from "../process/number-record.ts";
import type { IpvsFindings, SyncReporter } from "../report/sync-reporter.ts";
import { type AskWeight, askWeight } from "../weights/ask-weight.ts";
import { Ejections, type EjectionsContext } from "../weights/ejections.ts";
import { WeightAnswers } from "../weights/weight-answers.ts";
import type { KernelLoopContext } from "./cluster-input.ts";
import { findHolders } from "./find-holders.ts";
import { KernelChecks } from "./kernel-checks.ts";
import { Loop, type LoopResult } from "./loop.ts";

export interface SyncLoopContext extends KernelLoopContext {
  readonly reporter: SyncReporter;
  /** If undefined, drain start times are lost in a restart. */
  readonly drainStartTimes?: DrainStartTimes;
  /** If undefined, endpoints whose weight is still growing have their full weight after a restart. */
  readonly rampStartTimes?: RampStartTimes;
  /** If undefined, the weights that endpoints answered are lost in a restart. */
  readonly weightRecord?: NumberRecord;
  /** If undefined, a restart ends all ejections. */
  readonly ejectionRecord?: NumberRecord;
  /** Asks an endpoint for its weight. Defaults to an HTTP request. */
  readonly askWeight?: AskWeight;
  /** See `EjectionsContext.canConnect`. */
  readonly canConnect?: EjectionsContext["canConnect"];
  /** If undefined, only the kernel's ipsets show which virtual servers are ours after a restart. */
  readonly ownershipRecord?: OwnershipRecord;
  /** If undefined, node ports are not served on loopback addresses. */
  readonly localhostNodePorts?: LocalhostNodePorts;
}

/**
 * Minimum number of listed objects between two passes that plan ahead: half a list page. Passes are then frequent enough
 * that little work remains after the last page.
 */
const fewestNotes = 256;
/**
 * Each pass that plans ahead examines all pending Services. If many are pending, a pass starts only when the number of
 * newly listed objects reaches an eighth of the number of pending Services.
 */
const pendingPerNote = 8;

/** The loop of IPVS mode. */
export class SyncLoop extends Loop<ClusterPlan, IpvsFindings, SyncLoopContext> {
  readonly #observeOnly: boolean;
  readonly #answers: WeightAnswers;
  readonly #ejections: Ejections;
  readonly #schedulers: AvailableSchedulers;
  readonly #reconciler: Reconciler;
  /** Undefined if tunnel forwarding is off. Links of an earlier run are then removed as leftovers. */
  readonly #tunnels: Tunnels | undefined;
  protected override readonly checks: KernelChecks;
  /**
   * Whether a pass that plans ahead is running. Remains true if a pass fails, so that no further one starts; the first
   * sync then reports the error.
   */
  #isPlanningAhead = false;
  /**
   * Number of objects that were listed since the last pass that planned ahead. EndpointSlices are counted too, because
   * a slice may complete a pending Service.
   */
  #notes = 0;
  #lastGoal: SyncGoal | undefined;
  #options: PlanOptions | undefined;

  constructor(parts: SyncLoopContext, live: LiveConfig, families: readonly IpFamily[]) {
    const { kernel, clock, healthChecks, localhostNodePorts } = parts;
    const {
      weightRecord,
      ejectionRecord,
      canConnect,
      askWeight: ask = askWeight,
      reporter,
    } = parts;
    const isReadOnly = live.current.observeOnly;
    const replan = (service: ServiceName): void => {
      this.plan.tracker.touch(service);
      this.request();
    };
    const isPlanned = (): boolean => this.#lastGoal !== undefined;
    const answers: WeightAnswers = new WeightAnswers({
      ...{ clock, log: parts.log, ask, isReadOnly, ...(weightRecord && { record: weightRecord }) },
      isPlanned,
      periodMs: () => live.current.weightRequestPeriodMs,
      random: Math.random,
      onCounts: (answered, unanswered) => reporter.noteWeightSignals({ answered, unanswered }),
      onChange: (services) => services.forEach(replan),
    });
    const ejections: Ejections = new Ejections({
      ...{ clock, log: parts.log, ipvs: kernel.ipvs, isReadOnly, onChange: replan },
      isPlanned,
      ...(canConnect && { canConnect }),
      ...(ejectionRecord && { record: ejectionRecord }),
      onCount: (ejected) => reporter.noteWeightSignals({ ejected }),
    });
    super(parts, {
      ...{ live, families },
      makePlan: (context) =>
        new ClusterPlan({
          ...context,
          onPlan: (plan) => {
            healthChecks.note(plan);
            localhostNodePorts?.note(plan);
            answers.note(plan);
            ejections.note(plan);
          },
          answerOf: (...endpoint) => answers.answerOf(...endpoint),
          isEjected: (...endpoint) => ejections.isEjected(...endpoint),
          recallRamp: (key) => (parts.rampStartTimes ?? noRampStartTimes).recall(key),
        }),
      areWeightsDefault: () => live.current.weights === "node",
      // Not every served address is bound, for example this node's own.
      readServed: async () => {
        const servers = await this.readServers();
        const served = servers.map(({ virtualServer: { address } }) => address);
        return [...served, ...((await this.readBound()) ?? [])];
      },
    });
    this.#answers = answers;
    this.#ejections = ejections;
    this.#observeOnly = live.current.observeOnly;
    this.#schedulers = new AvailableSchedulers({
      ...{ ipvs: kernel.ipvs, clock, families },
      isAllowed: (name) => isAllowedScheduler(name, live.current.extraSchedulers),
    });
    this.#reconciler = new Reconciler({ ...parts, isDryRun: this.#observeOnly });
    if (live.current.tunnelForwarding && !this.#observeOnly)
      this.#tunnels = new Tunnels({
        ...{ links: kernel.tunnels, families, log: parts.log, desired: this.plan.desired },
        canExist: (subject) => this.#lastGoal && this.#reconciler.canExist(subject, this.#lastGoal),
      });
    this.checks = new KernelChecks({
      ...{ ...parts, live, node: this.node, exclusive: this.exclusive },
      reconciler: this.#reconciler,
      lastGoal: () => this.#lastGoal,
      requestSync: () => this.request(),
    });
  }

  override start(): void {
    // Start reading early. An error is ignored here, because the next read reports it.
    this.readServers().catch(() => undefined);
    super.start();
  }

  override async stop(): Promise<void> {
    this.#answers.stop();
    this.#ejections.stop();
    await super.stop();
    await this.parts.localhostNodePorts?.stop();
  }

  /**
   * Reads the virtual and real servers in the kernel before the first sync. The callers and the sync share one read.
   */
  readServers(): ReturnType<ServersAhead["read"]> {
    return this.#reconciler.serversAhead.read();
  }

  /** Addresses on kube-ipvs0, as last read. Undefined if the link does not exist. */
  async readBound(): Promise<readonly IpAddress[] | undefined> {
    await this.exclusive.run(() => this.node.refresh());
    return this.node.bound;
  }

  /** Read-only access to the state. */
  get view(): Pick<DaemonView, "plan" | "answers" | "ejections" | "reconciler" | "history"> {
    return {
      plan: this.plan,
      answers: this.#answers,
      ejections: this.#ejections,
      reconciler: this.#reconciler,
      history: this.parts.reporter.history,
    };
  }

  protected override invalidate(): void {
    this.#reconciler.invalidate();
  }

  protected override noteService(...change: Parameters<AvailableSchedulers["noteService"]>): void {
    this.#schedulers.noteService(...change);
  }

  /** Plans Services while their lists arrive, so that the first sync has little left to plan. Writes nothing. */
  protected override noteListed(): void {
    this.#notes += 1;
    const fewest = Math.max(fewestNotes, this.plan.tracker.pendingCount / pendingPerNote);
    if (this.#isPlanningAhead || this.#notes < fewest || !this.input.isListing) return;
    this.#isPlanningAhead = true;
    this.#notes = 0;
    const pass = this.exclusive.run(async () => {
      const options = await this.node.refresh();
      if (this.input.isListing) await inSlices(this.parts.clock, this.plan.updateAhead(options));
      this.#isPlanningAhead = false;
    });
    background(pass, this.parts.log, "planning ahead");
  }

  protected override async planChanges(nowMs: number): Promise<PendingChanges> {
    this.plan.noteMissingSchedulers(await this.#schedulers.refresh());
    const options = await this.node.refresh();
    this.#options = options;
    this.plan.noteNodes(this.input.nodeFacts, options);
    const pending = await inSlices(this.parts.clock, this.plan.update(options, nowMs));
    const ramps = this.plan.takeRamps();
    if (ramps !== undefined && !this.#observeOnly) this.parts.rampStartTimes?.keep(ramps);
    return pending;
  }

  protected override async reconcile(
    onProgress?: ApplyProgress,
  ): Promise<LoopResult<IpvsFindings>> {
    const { desired } = this.plan;
    await this.#tunnels?.removeUnneeded();
    const isFull = this.#observeOnly || this.#reconciler.needsObservation;
    if (this.#lastGoal === undefined) await findHolders(desired, this.parts.kernel.ipvs);
    const goal = this.#takeGoal();
    this.#lastGoal = goal;
    // `findHolders` may have moved a mark from one Service to another. Both are then planned again.
    if (desired.contenders.size > 0) this.request();
    const report = await this.#reconciler.sync(goal, onProgress);
    await this.#tunnels?.serve();
    this.checks.synced();
    const { drainer: drains } = this.#reconciler;
    return { report, isFull, findings: { desired, drains } };
  }

  protected override async serve(): Promise<void> {
    if (this.#options !== undefined) await this.parts.localhostNodePorts?.serve(this.#options);
  }

  /**
   * Time of the next event that needs a sync: the retry of a rejected change or a reverted repair, the next check for a
   * missing scheduler, or the next increase of a weight that is still growing.
   */
  protected override get dueMs(): number | undefined {
    const { nextRetryMs } = this.#reconciler;
    return earliest([nextRetryMs, this.#schedulers.nextCheckMs, this.plan.nextRampMs]);
  }

  #takeGoal(): SyncGoal {
    const config = this.live.current;
    const { foreignVirtualServers, excludeCIDRs, drain, manualWeights } = config;
    const isMissing = this.#observeOnly && this.parts.kernel.modules.isAvailable("ip_vs") === false;
    return {
      ...this.plan.takeGoal(),
      desired: this.plan.desired,
      sysctls: sysctlsOf(config),
      missingModules: isMissing ? ["ip_vs"] : [],
      nodeAddresses: this.node.addresses,
      ownership: { foreignVirtualServers, excludeCIDRs },
      drain,
      manualWeights,
    };
  }
}
