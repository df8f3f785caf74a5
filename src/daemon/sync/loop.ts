import { Exclusive } from "../../base/exclusive.ts";
import type { IpFamily } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { yieldToEventLoop } from "../../base/time-slice.ts";
import type { ChangeTracker, PendingChanges } from "../../model/change-tracker.ts";
import type { NodePlace } from "../../model/topology.ts";
import type { Holders } from "../../plan/claims/claim.ts";
import { type ClaimMemory, noClaimMemory } from "../../plan/claims/claim-memory.ts";
import { type HolderRecord, noHolderRecord } from "../../plan/claims/holder-record.ts";
import type { PlanContext } from "../../plan/plan-context.ts";
import type { ApplyProgress } from "../../reconcile/apply/pass.ts";
import type { SyncReport } from "../../reconcile/report.ts";
import type { KnownNode } from "../node/known-node.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { LoopReporter, LoopSummary, ModeFindings } from "../report/loop-reporter.ts";
import type { Checks } from "./checks.ts";
import { ClusterInput, type ClusterInputOptions, type LoopContext } from "./cluster-input.ts";
import { Runner, runnerOptions } from "./runner.ts";

/** A mode's desired state, which is updated Service by Service. */
interface Plan {
  readonly tracker: ChangeTracker;
  readonly annotationProblems: LoopSummary["annotationProblems"];
  readonly desired: LoopSummary["desired"] & {
    readonly claims: { contestedHolders(): Holders };
  };
}

/** The checks between syncs. */
export type LoopChecks = Pick<Checks, "start" | "configure" | "stop">;

/** The result of one sync, including findings that exist only in this mode. */
export interface LoopResult<Findings> extends Pick<LoopSummary, "report" | "isFull"> {
  readonly findings: Findings;
}

export interface LoopOptions<P>
  extends Pick<ClusterInputOptions, "areWeightsDefault" | "readServed"> {
  readonly live: LiveConfig;
  readonly families: readonly IpFamily[];
  readonly makePlan: (context: PlanContext) => P;
}

/**
 * The main loop of the daemon: receives objects from the source, plans the changes, and syncs them to the kernel.
 * Writes nothing before all Services and EndpointSlices are listed. Each mode defines how to plan and reconcile, and
 * what to check between syncs.
 */
export abstract class Loop<
  P extends Plan,
  Findings extends ModeFindings,
  Context extends LoopContext & { readonly reporter: LoopReporter<Findings> },
> {
  protected readonly parts: Context;
  protected readonly live: LiveConfig;
  readonly families: readonly IpFamily[];
  protected readonly plan: P;
  /** Receives the objects from the source. */
  readonly input: ClusterInput;
  protected readonly exclusive: Exclusive = new Exclusive();
  protected abstract readonly checks: LoopChecks;
  readonly #runner: Runner;
  readonly #holderRecord: HolderRecord;
  readonly #claimMemory: ClaimMemory;

  constructor(parts: Context, { live, families, makePlan, ...options }: LoopOptions<P>) {
    const { reporter, clock } = parts;
    this.parts = parts;
    this.live = live;
    this.families = families;
    this.#holderRecord = parts.holderRecord ?? noHolderRecord;
    this.#claimMemory = parts.claimMemory ?? noClaimMemory();
    this.plan = makePlan({
      startedAtMs: clock.nowMs(),
      held: this.#holderRecord.held,
      limits: live.current.limits,
      claims: this.#claimMemory,
    });
    this.input = new ClusterInput(parts, {
      ...{ ...options, live, families, reporter, tracker: this.plan.tracker },
      onService: (...change) => this.noteService(...change),
      onChange: () => this.request(),
      onListed: (counts) => reporter.firstSync.listed(counts),
    });
    this.#runner = new Runner("Sync", () => this.#run(), parts, runnerOptions(live));
  }

  /** The last known objects. */
  get objects(): ChangeTracker {
    return this.plan.tracker;
  }

  /** The node's name and zone at the last sync. */
  get place(): NodePlace {
    return this.node.place;
  }

  start(): void {
    this.parts.reporter.started(this.families);
    this.input.start();
    this.checks.start();
    this.#runner.start();
  }

  /** Resolves when all objects that the source has reported so far have been written to the kernel. */
  settled(): Promise<void> {
    return this.#runner.settled();
  }

  /** Stops the loop after the running sync, if any. Leaves the kernel state in place. */
  async stop(): Promise<void> {
    this.input.stop();
    this.checks.stop();
    await this.#runner.stop();
    await this.exclusive.idle();
    await this.parts.healthChecks?.stop();
  }

  /** Call this when the configuration has changed. Everything that depends on it is planned again. */
  reconfigured(): void {
    this.#runner.configure(runnerOptions(this.live));
    this.checks.configure();
    this.input.reconfigured();
    this.invalidate();
    this.request();
  }

  /** Plans the changes. `nowMs` is monotonic. */
  protected abstract planChanges(nowMs: number): Promise<PendingChanges>;
  /** Applies the plan to the kernel. */
  protected abstract reconcile(onProgress?: ApplyProgress): Promise<LoopResult<Findings>>;
  /**
   * Monotonic time of the next sync that is needed even without a change in the cluster. Excludes retries of failed
   * syncs.
   */
  protected abstract get dueMs(): number | undefined;
  /** Makes the next sync compare all kernel state. */
  protected abstract invalidate(): void;
  /** Starts or updates parts that are not reconciled. Not called in observe-only mode. */
  protected async serve(_report: SyncReport): Promise<void> {}
  /** Called for each changed Service. */
  protected noteService(..._change: Parameters<ChangeTracker["noteService"]>): void {}
  /** Called for each listed object while the lists are incomplete. */
  protected noteListed(): void {}

  protected get node(): KnownNode {
    return this.input.node;
  }

  protected request(): void {
    if (this.input.isReady) {
      this.parts.reporter.queued(this.families);
      this.#runner.request();
    } else this.noteListed();
  }

  /** Returns whether the sync succeeded. */
  async #sync(onProgress?: ApplyProgress): Promise<boolean> {
    const { clock, reporter, healthChecks, onReport = () => {} } = this.parts;
    const { observeOnly } = this.live.current;
    const { tracker, desired, annotationProblems } = this.plan;
    const startedAtMs = clock.monotonicMs();
    const { services, triggers } = await this.planChanges(startedAtMs);
    const { report, isFull, findings } = await this.reconcile(onProgress);
    onReport(report);
    const summary: LoopSummary = {
      ...{ report, isFull, observeOnly, triggers, desired, annotationProblems },
      families: this.families,
      serviceCount: tracker.serviceCount,
      plannedServiceCount: services.length,
      elapsedMs: clock.monotonicMs() - startedAtMs,
      lostHealthPorts: healthChecks?.claims.lost() ?? none,
      waitingClaims: this.input.waitingClaims,
      limitedServices: tracker.limitedServices(),
    };
    reporter.synced(summary, findings);
    const hasWorked = report.failures.length === 0;
    if (!observeOnly) {
      if (hasWorked) this.#keepClaims();
      await healthChecks?.serve(this.node.healthCheckAddresses);
      await this.serve(report);
    }
    this.#runner.requestAt(hasWorked ? this.dueMs : undefined);
    return hasWorked;
  }

  /**
   * Saves the owners of contested addresses and ports. Not called in observe-only mode, in which the running proxy
   * decides who owns them, not this program.
   */
  #keepClaims(): void {
    const ofPorts = this.parts.healthChecks?.claims.contestedHolders() ?? new Map();
    this.#holderRecord.keepHolders(this.plan.desired.claims.contestedHolders(), ofPorts);
    const record = this.#claimMemory.ages.takeRecord();
    if (record !== undefined) this.#claimMemory.keep(record);
  }

  async #run(): Promise<boolean> {
    // Let other work run first, because decoding the event that requested this sync may have taken milliseconds.
    await yieldToEventLoop();
    const { firstSync } = this.parts.reporter;
    return this.exclusive.run(async () => {
      if (!this.input.isReady) return true;
      return firstSync.watch((onProgress) => this.#sync(onProgress));
    });
  }
}
