import { Exclusive } from "../../base/exclusive.ts";
import type { IpFamily } from "../../base/ip.ts";
import { type NextRun, type Pace, Periodic } from "../../base/periodic.ts";
import { inSlices, yieldToEventLoop } from "../../base/time-slice.ts";
import type { ChangeTracker } from "../../model/change-tracker.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { NodePlace } from "../../model/topology.ts";
import { type ClaimMemory, noClaimMemory } from "../../plan/claims/claim-memory.ts";
import { type HolderRecord, noHolderRecord } from "../../plan/claims/holder-record.ts";
import { frontendsOf } from "../../plan/frontends.ts";
import type { IptablesNodeOptions } from "../../plan/iptables/options.ts";
import { TablesPlan } from "../../plan/iptables/tables-plan.ts";
import { loopbackAddresses } from "../../plan/loopback-node-ports.ts";
import type { PlanOptions } from "../../plan/options.ts";
import { TablesReconciler, type TablesReport } from "../../reconcile/iptables/tables-reconciler.ts";
import type { RuleSet } from "../../state/rule.ts";
import { iptablesOptionsOf } from "../node/iptables-facts.ts";
import type { KnownNode } from "../node/known-node.ts";
import { type PreparedTables, routeLocalnet } from "../node/prepare-tables.ts";
import type { ServedAddress } from "../operator/daemon-view.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { TablesReporter } from "../report/tables-reporter.ts";
import { AddressWatch } from "./address-watch.ts";
import { ClusterInput, type LoopParts } from "./cluster-input.ts";
import { findHoldersInTables } from "./find-holders.ts";
import { RetryTimer } from "./retry-timer.ts";
import { Runner, runnerOptions } from "./runner.ts";

export interface TablesLoopParts extends LoopParts {
  readonly reporter: TablesReporter;
}

/** Most of a processor that checks between syncs may take. */
const checkShare = 0.02;
const mostIntervals = 8;
/** Everything is compared at least this often, even where nothing seems to have changed. */
const fullComparisonMs = 3_600_000;

const noRules: RuleSet = { chains: [], jumps: [] };

/**
 * The heart of mode iptables: takes what the source reports, and from time to time plans what changed and writes the chains
 * that are about it. The same Node, lists, runner and health as in mode ipvs; another plan, another reconciler. Nothing
 * is written before Services and EndpointSlices are completely listed.
 */
export class TablesLoop {
  readonly #live: LiveConfig;
  readonly #prepared: PreparedTables;
  readonly #parts: TablesLoopParts;
  /** What the source reports. */
  readonly input: ClusterInput;
  readonly #plan: TablesPlan;
  readonly #reconciler: TablesReconciler;
  readonly #holderRecord: HolderRecord;
  readonly #claimMemory: ClaimMemory;
  #hasGoal = false;
  readonly #runner: Runner;
  readonly #addressWatch: AddressWatch;
  readonly #check: Periodic;
  readonly #exclusive = new Exclusive();
  readonly #retry: RetryTimer;
  #nodeOptions: { readonly shared: PlanOptions; readonly own: IptablesNodeOptions } | undefined;
  #comparedAtMs = 0;

  constructor(parts: TablesLoopParts, live: LiveConfig, prepared: PreparedTables) {
    const { kernel, clock, healthChecks } = parts;
    this.#parts = parts;
    this.#live = live;
    this.#prepared = prepared;
    this.#holderRecord = parts.holderRecord ?? noHolderRecord;
    this.#claimMemory = parts.claimMemory ?? noClaimMemory();
    this.#plan = new TablesPlan({
      held: this.#holderRecord.held,
      limits: live.current.limits,
      claims: this.#claimMemory,
      startedAtMs: clock.nowMs(),
      onPlan: (plan) => healthChecks.note(plan),
    });
    this.input = new ClusterInput(parts, {
      live,
      families: prepared.families,
      tracker: this.#plan.tracker,
      reporter: parts.reporter,
      onChange: () => this.#request(),
    });
    const { isObserveOnly: isDryRun } = live.current;
    this.#reconciler = new TablesReconciler({ kernel, clock, isDryRun });
    this.#runner = new Runner(() => this.#run(), parts, runnerOptions(live));
    this.#retry = new RetryTimer(clock, () => this.#runner.request());
    const look = () => this.#exclusive.run(() => this.#checkAddresses());
    this.#addressWatch = new AddressWatch(look, parts);
    this.#check = this.#makeCheck();
  }

  /** Families whose programs and kernel parts work here. */
  get families(): readonly IpFamily[] {
    return this.#prepared.families;
  }

  /** Objects as last known. */
  get objects(): ChangeTracker {
    return this.#plan.tracker;
  }

  /** What was planned for a family at the last sync; empty before the first one. */
  rulesOf(family: IpFamily): RuleSet {
    return this.#plan.isPlanned ? this.#plan.ruleSet(family) : noRules;
  }

  /** Addresses and ports of a service port, as they were planned; those of loopback, too. */
  frontends(port: ServicePort, family: IpFamily): readonly ServedAddress[] {
    const { shared, own } = this.#nodeOptions ?? {};
    const options = shared?.families.get(family);
    if (options === undefined) return [];
    const isOnLoopback = own?.families.get(family)?.servesLoopback === true && port.nodePort !== 0;
    const onLoopback: readonly ServedAddress[] = isOnLoopback
      ? [{ kind: "node-port", address: loopbackAddresses[family], port: port.nodePort }]
      : [];
    return [...frontendsOf(port, options), ...onLoopback];
  }

  /** Who has which address and port. */
  get claims(): TablesPlan["desired"]["claims"] {
    return this.#plan.desired.claims;
  }

  /** Where this node stood at the last sync. */
  get place(): NodePlace {
    return this.#nodeOptions?.shared.place ?? { nodeName: this.#live.current.nodeName, zone: "" };
  }

  start(): void {
    this.#parts.reporter.started(this.families);
    this.input.start();
    this.#addressWatch.start();
    this.#check.start();
    this.#runner.start();
  }

  /** Resolves when everything reported so far is in the kernel. */
  settled(): Promise<void> {
    return this.#runner.settled();
  }

  /** Ends after the sync that may be running. The kernel keeps its state. */
  async stop(): Promise<void> {
    this.input.stop();
    this.#addressWatch.stop();
    this.#check.stop();
    this.#retry.stop();
    await this.#runner.stop();
    await this.#exclusive.idle();
    await this.#parts.healthChecks.stop();
  }

  /** The configuration is another one: everything that depends on it is planned again. */
  reconfigured(): void {
    this.#runner.configure(runnerOptions(this.#live));
    this.#check.configure(this.#checkPace);
    this.input.reconfigured();
    this.#nodeOptions = undefined;
    this.#reconciler.invalidate();
    this.#request();
  }

  get #node(): KnownNode {
    return this.input.node;
  }

  #request(): void {
    if (!this.input.isReady) return;
    this.#parts.reporter.queued(this.families);
    this.#runner.request();
  }

  async #run(): Promise<boolean> {
    // What asked for it has been at work until now.
    await yieldToEventLoop();
    return this.#exclusive.run(() => this.#sync());
  }

  async #sync(): Promise<boolean> {
    if (!this.input.isReady) return true;
    const { clock, reporter, healthChecks, onReport = () => {} } = this.#parts;
    const startedAtMs = clock.monotonicMs();
    const options = await this.#refreshOptions();
    const { services, triggers } = await inSlices(clock, this.#plan.update(options));
    const { kernel, log } = this.#parts;
    if (!this.#hasGoal) await findHoldersInTables(this.#plan, kernel.iptables, this.families);
    const report = await this.#reconciler.sync(this.#takeGoal());
    const { claims } = this.#plan.desired;
    // Only who writes the rules decides whom they serve.
    if (!this.#live.current.isObserveOnly) {
      const ofPorts = healthChecks.claims.contestedHolders();
      this.#holderRecord.keepHolders(claims.contestedHolders(), ofPorts);
      const claimRecord = this.#claimMemory.ages.takeRecord();
      if (claimRecord !== undefined) this.#claimMemory.keep(claimRecord);
    }
    onReport(report);
    reporter.synced({
      report,
      isObserveOnly: this.#live.current.isObserveOnly,
      serviceCount: this.objects.serviceCount,
      plannedServiceCount: services.length,
      elapsedMs: clock.monotonicMs() - startedAtMs,
      triggers,
      desired: this.#plan.desired,
      lostHealthPorts: healthChecks.claims.lost(),
      limitedServices: this.objects.limitedServices(),
    });
    const hasWorked = report.failures.length === 0;
    this.#retry.at(hasWorked ? this.#reconciler.nextRetryMs : undefined);
    this.#noteComparison(report);
    if (!this.#live.current.isObserveOnly) {
      if (hasWorked && options.families.get("IPv4")?.servesLoopback === true) {
        routeLocalnet(kernel, log);
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

  /** From now on every Service holds the addresses that it has. */
  #takeGoal(): Parameters<TablesReconciler["sync"]>[0] {
    this.#hasGoal = true;
    this.#plan.desired.claims.settle();
    return {
      families: this.families.map((family) => ({
        family,
        wanted: () => this.#plan.ruleSet(family),
        touched: this.#plan.takeTouched(family),
      })),
      touchedUdp: this.#plan.desired.takeTouchedUdp(),
      allUdp: () => this.#plan.desired.allUdp(),
    };
  }

  #noteComparison({ families }: TablesReport): void {
    const isCompared = families.every(({ isFull, failure }) => isFull && failure === undefined);
    if (isCompared) this.#comparedAtMs = this.#parts.clock.monotonicMs();
  }

  async #checkAddresses(): Promise<void> {
    const { isChanged } = await this.#node.look();
    if (isChanged) this.#request();
  }

  /** Some program changed a rule, a canary is gone, or nobody has looked for an hour: the next sync compares everything. */
  async #compare(): Promise<NextRun> {
    await this.#exclusive.runIfIdle(async () => {
      if (!this.input.isReady) return;
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

  #makeCheck(): Periodic {
    const { processorMs, clock, log } = this.#parts;
    const task = {
      name: "check of rules",
      ...this.#checkPace,
      maxShare: checkShare,
      run: () => this.#compare(),
      ...(processorMs === undefined ? {} : { usedMs: processorMs }),
    };
    return new Periodic(task, { clock, log });
  }

  get #checkPace(): Pace {
    const { ruleCheckPeriodMs, syncPeriodMs } = this.#live.current;
    const intervalMs = ruleCheckPeriodMs > 0 ? ruleCheckPeriodMs : syncPeriodMs;
    return { intervalMs, longestPauseMs: mostIntervals * intervalMs };
  }
}
