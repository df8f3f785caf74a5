import type { IpFamily } from "../../base/ip.ts";
import { type NextRun, type Pace, Periodic } from "../../base/periodic.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { ChangeTracker } from "../../model/change-tracker.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { NodePlace } from "../../model/topology.ts";
import { frontendsOf } from "../../plan/frontends.ts";
import type { IptablesNodeOptions } from "../../plan/iptables/options.ts";
import { TablesPlan } from "../../plan/iptables/tables-plan.ts";
import { loopbackAddresses } from "../../plan/loopback-node-ports.ts";
import type { PlanOptions } from "../../plan/options.ts";
import { TablesReconciler, type TablesReport } from "../../reconcile/iptables/tables-reconciler.ts";
import type { RuleSet } from "../../state/rule.ts";
import { iptablesOptionsOf } from "../node/iptables-facts.ts";
import { type PreparedTables, routeLocalnet } from "../node/prepare-tables.ts";
import { readServedByRules } from "../node/served-by-rules.ts";
import type { ServedAddress } from "../operator/daemon-view.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { TablesReporter } from "../report/tables-reporter.ts";
import { AddressWatch } from "./address-watch.ts";
import type { LoopContext } from "./cluster-input.ts";
import { findHoldersInTables } from "./find-holders.ts";
import { Loop } from "./loop.ts";

export interface TablesLoopContext extends LoopContext {
  readonly reporter: TablesReporter;
}

/** Most of a processor that checks between syncs may take. */
const checkShare = 0.02;
const mostIntervals = 8;
/** Everything is compared at least this often, even where nothing seems to have changed. */
const fullComparisonMs = 3_600_000;

const noRules: RuleSet = { chains: [], jumps: [] };

/** The loop of iptables mode. */
export class TablesLoop extends Loop<TablesPlan, TablesLoopContext> {
  readonly #prepared: PreparedTables;
  readonly #reconciler: TablesReconciler;
  #hasGoal = false;
  readonly #addressWatch: AddressWatch;
  readonly #check: Periodic;
  #nodeOptions: { readonly shared: PlanOptions; readonly own: IptablesNodeOptions } | undefined;
  #comparedAtMs = 0;

  constructor(parts: TablesLoopContext, live: LiveConfig, prepared: PreparedTables) {
    const { kernel, clock, healthChecks } = parts;
    super(parts, {
      ...{ live, families: prepared.families },
      makePlan: (records) =>
        new TablesPlan({
          ...records,
          limits: live.current.limits,
          startedAtMs: clock.nowMs(),
          onPlan: (plan) => healthChecks.note(plan),
        }),
      readServed: async () =>
        (await readServedByRules(kernel.iptables, prepared.families)).services,
    });
    this.#prepared = prepared;
    const { isObserveOnly: isDryRun } = live.current;
    this.#reconciler = new TablesReconciler({ kernel, clock, isDryRun });
    const look = () => this.exclusive.run(() => this.#checkAddresses());
    this.#addressWatch = new AddressWatch(look, parts);
    this.#check = this.#makeCheck();
  }

  /** Objects as last known. */
  get objects(): ChangeTracker {
    return this.plan.tracker;
  }

  /** What was planned for a family at the last sync; empty before the first one. */
  rulesOf(family: IpFamily): RuleSet {
    return this.plan.isPlanned ? this.plan.ruleSet(family) : noRules;
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
    return this.plan.desired.claims;
  }

  /** Where this node stood at the last sync. */
  get place(): NodePlace {
    return this.#nodeOptions?.shared.place ?? { nodeName: this.live.current.nodeName, zone: "" };
  }

  protected override invalidate(): void {
    this.#nodeOptions = undefined;
    this.#reconciler.invalidate();
  }

  protected override startChecks(): void {
    this.#addressWatch.start();
    this.#check.start();
  }

  protected override stopChecks(): void {
    this.#addressWatch.stop();
    this.#check.stop();
  }

  protected override configureChecks(): void {
    this.#check.configure(this.#checkPace);
  }

  protected override async sync(): Promise<boolean> {
    const { clock, reporter, healthChecks, onReport = () => {} } = this.parts;
    const startedAtMs = clock.monotonicMs();
    const options = await this.#refreshOptions();
    const { services, triggers } = await inSlices(clock, this.plan.update(options));
    const { kernel, log } = this.parts;
    if (!this.#hasGoal) await findHoldersInTables(this.plan, kernel.iptables, this.families);
    const report = await this.#reconciler.sync(this.#takeGoal());
    this.keepClaims();
    onReport(report);
    reporter.synced({
      report,
      isObserveOnly: this.live.current.isObserveOnly,
      serviceCount: this.objects.serviceCount,
      plannedServiceCount: services.length,
      elapsedMs: clock.monotonicMs() - startedAtMs,
      triggers,
      desired: this.plan.desired,
      lostHealthPorts: healthChecks.claims.lost(),
      waitingClaims: this.input.waitingClaims,
      limitedServices: this.objects.limitedServices(),
    });
    const hasWorked = report.failures.length === 0;
    this.retry.at(hasWorked ? this.#reconciler.nextRetryMs : undefined);
    this.#noteComparison(report);
    if (!this.live.current.isObserveOnly) {
      if (hasWorked && options.families.get("IPv4")?.servesLoopback === true) {
        routeLocalnet(kernel, log);
      }
      await healthChecks.serve(this.node.healthCheckAddresses);
    }
    return hasWorked;
  }

  /** The same object while nothing in it differs. */
  async #refreshOptions(): Promise<IptablesNodeOptions> {
    const shared = await this.node.refresh();
    if (this.#nodeOptions?.shared !== shared) {
      // Rules that belong to no Service depend on them, too.
      this.#reconciler.invalidate();
      const { current: config } = this.live;
      const { hasCounters } = this.#prepared;
      const facts = { config, node: this.node.record, shared, hasCounters };
      this.#nodeOptions = { shared, own: iptablesOptionsOf(facts) };
    }
    return this.#nodeOptions.own;
  }

  /** From now on every Service holds the addresses that it has. */
  #takeGoal(): Parameters<TablesReconciler["sync"]>[0] {
    this.#hasGoal = true;
    this.plan.desired.claims.settle();
    return {
      families: this.families.map((family) => ({
        family,
        wanted: () => this.plan.ruleSetInSteps(family),
        touched: this.plan.takeTouched(family),
      })),
      touchedUdp: this.plan.desired.takeTouchedUdp(),
      allUdp: () => this.plan.desired.allUdp(),
    };
  }

  #noteComparison({ families }: TablesReport): void {
    const isCompared = families.every(({ isFull, hasWorked }) => isFull && hasWorked);
    if (isCompared) this.#comparedAtMs = this.parts.clock.monotonicMs();
  }

  async #checkAddresses(): Promise<void> {
    const { isChanged } = await this.node.look();
    if (isChanged) this.request();
  }

  /** Some program changed a rule, a canary is gone, or nobody has looked for an hour: the next sync compares everything. */
  async #compare(): Promise<NextRun> {
    await this.exclusive.runIfIdle(async () => {
      if (!this.input.isReady) return;
      const { clock, reporter } = this.parts;
      const isOverdue = clock.monotonicMs() - this.#comparedAtMs >= fullComparisonMs;
      if (!isOverdue && !(await this.#mayDiffer())) return;
      reporter.comparing();
      this.#reconciler.invalidate();
      this.request();
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
    const { processorMs, clock, log } = this.parts;
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
    const { ruleCheckPeriodMs, syncPeriodMs } = this.live.current;
    const intervalMs = ruleCheckPeriodMs > 0 ? ruleCheckPeriodMs : syncPeriodMs;
    return { intervalMs, longestPauseMs: mostIntervals * intervalMs };
  }
}
