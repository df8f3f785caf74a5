import { Exclusive } from "../../base/exclusive.ts";
import type { IpFamily } from "../../base/ip.ts";
import { yieldToEventLoop } from "../../base/time-slice.ts";
import type { ChangeTracker } from "../../model/change-tracker.ts";
import type { Holders } from "../../plan/claims/claim.ts";
import { type ClaimMemory, noClaimMemory } from "../../plan/claims/claim-memory.ts";
import { type HolderRecord, noHolderRecord } from "../../plan/claims/holder-record.ts";
import type { ApplyProgress } from "../../reconcile/apply/pass.ts";
import type { KnownNode } from "../node/known-node.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { LoopReporter } from "../report/loop-reporter.ts";
import { ClusterInput, type ClusterInputOptions, type LoopContext } from "./cluster-input.ts";
import { RetryTimer } from "./retry-timer.ts";
import { Runner, runnerOptions } from "./runner.ts";

/** What a mode wants in the kernel, changed one Service at a time. */
interface Plan {
  readonly tracker: ChangeTracker;
  readonly desired: { readonly claims: { contestedHolders(): Holders } };
}

export interface LoopOptions<P>
  extends Pick<ClusterInputOptions, "areWeightsDefault" | "readServed"> {
  readonly live: LiveConfig;
  readonly families: readonly IpFamily[];
  readonly makePlan: (records: {
    readonly held: HolderRecord["held"];
    readonly claims: ClaimMemory;
  }) => P;
}

/**
 * The heart of the daemon: takes what the source reports, and from time to time plans what changed and brings the kernel
 * there. Nothing is written before Services and EndpointSlices are completely listed. A mode says how a sync works, and what
 * is checked between syncs.
 */
export abstract class Loop<
  P extends Plan,
  Parts extends LoopContext & { readonly reporter: LoopReporter },
> {
  protected readonly parts: Parts;
  protected readonly live: LiveConfig;
  readonly families: readonly IpFamily[];
  protected readonly plan: P;
  /** What the source reports. */
  readonly input: ClusterInput;
  protected readonly exclusive: Exclusive = new Exclusive();
  protected readonly runner: Runner;
  protected readonly retry: RetryTimer;
  readonly #holderRecord: HolderRecord;
  readonly #claimMemory: ClaimMemory;

  constructor(parts: Parts, { live, families, makePlan, ...options }: LoopOptions<P>) {
    const { reporter, clock } = parts;
    this.parts = parts;
    this.live = live;
    this.families = families;
    this.#holderRecord = parts.holderRecord ?? noHolderRecord;
    this.#claimMemory = parts.claimMemory ?? noClaimMemory();
    this.plan = makePlan({ held: this.#holderRecord.held, claims: this.#claimMemory });
    this.input = new ClusterInput(parts, {
      ...{ ...options, live, families, reporter, tracker: this.plan.tracker },
      onService: (...change) => this.noteService(...change),
      onChange: () => this.request(),
      onListed: (counts) => reporter.firstSync.listed(counts),
    });
    this.runner = new Runner(() => this.#run(), parts, runnerOptions(live));
    this.retry = new RetryTimer(clock, () => this.runner.request());
  }

  start(): void {
    this.parts.reporter.started(this.families);
    this.input.start();
    this.startChecks();
    this.runner.start();
  }

  /** Resolves when everything reported so far is in the kernel. */
  settled(): Promise<void> {
    return this.runner.settled();
  }

  /** Ends after the sync that may be running. The kernel keeps its state. */
  async stop(): Promise<void> {
    this.input.stop();
    this.stopChecks();
    this.retry.stop();
    await this.runner.stop();
    await this.exclusive.idle();
    await this.parts.healthChecks.stop();
  }

  /** The configuration is another one: everything that depends on it is planned again. */
  reconfigured(): void {
    this.runner.configure(runnerOptions(this.live));
    this.configureChecks();
    this.input.reconfigured();
    this.invalidate();
    this.request();
  }

  /** Says whether the sync ran and the kernel answers. */
  protected abstract sync(onProgress?: ApplyProgress): Promise<boolean>;
  /** The next sync compares everything. */
  protected abstract invalidate(): void;
  protected abstract startChecks(): void;
  protected abstract stopChecks(): void;
  protected abstract configureChecks(): void;
  /** A Service changed. */
  protected noteService(..._change: Parameters<ChangeTracker["noteService"]>): void {}
  /** Something was listed before everything is. */
  protected noteListed(): void {}

  protected get node(): KnownNode {
    return this.input.node;
  }

  protected request(): void {
    if (this.input.isReady) {
      this.parts.reporter.queued(this.families);
      this.runner.request();
    } else this.noteListed();
  }

  /** Only a program that writes to the kernel decides whom it serves. */
  protected keepClaims(): void {
    if (this.live.current.isObserveOnly) return;
    const ofPorts = this.parts.healthChecks.claims.contestedHolders();
    this.#holderRecord.keepHolders(this.plan.desired.claims.contestedHolders(), ofPorts);
    const record = this.#claimMemory.ages.takeRecord();
    if (record !== undefined) this.#claimMemory.keep(record);
  }

  async #run(): Promise<boolean> {
    // What asked for it has been at work until now: reading and decoding an event of 250 endpoints takes milliseconds.
    await yieldToEventLoop();
    const { firstSync } = this.parts.reporter;
    return this.exclusive.run(async () => {
      if (!this.input.isReady) return true;
      return firstSync.watch((onProgress) => this.sync(onProgress));
    });
  }
}
