import type { IpFamily } from "../../base/ip.ts";
import type { PeriodicTask } from "../../base/periodic.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { PendingChanges } from "../../model/change-tracker.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { frontendsOf } from "../../plan/frontends.ts";
import type { IptablesNodeOptions } from "../../plan/iptables/options.ts";
import { sharedChains } from "../../plan/iptables/shared-chains.ts";
import { TablesPlan } from "../../plan/iptables/tables-plan.ts";
import { loopbackAddresses } from "../../plan/loopback-node-ports.ts";
import { TablesReconciler } from "../../reconcile/iptables/tables-reconciler.ts";
import { hasAllRules, type SyncReport } from "../../reconcile/report.ts";
import type { RuleSet } from "../../state/rule.ts";
import { iptablesOptionsOf } from "../node/iptables-facts.ts";
import { type PreparedTables, routeLocalnet } from "../node/prepare-tables.ts";
import { findHoldersInRules, readServedByRules } from "../node/served-by-rules.ts";
import type { ServedAddress } from "../operator/daemon-view.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { LoopReporter, ModeFindings } from "../report/loop-reporter.ts";
import { type CheckContext, Checks, checkShare, paceOf } from "./checks.ts";
import type { KernelLoopContext } from "./cluster-input.ts";
import { Loop, type LoopResult } from "./loop.ts";

export interface TablesLoopContext extends KernelLoopContext {
  readonly reporter: LoopReporter;
}

const noRules: RuleSet = { chains: [], jumps: [] };

/** The loop of iptables mode. */
export class TablesLoop extends Loop<TablesPlan, ModeFindings, TablesLoopContext> {
  readonly #prepared: PreparedTables;
  readonly #reconciler: TablesReconciler;
  protected override readonly checks: Checks;
  /** Families whose rules have been read to find the owners of contested addresses. */
  readonly #withOwners = new Set<IpFamily>();
  #options: IptablesNodeOptions | undefined;

  constructor(parts: TablesLoopContext, live: LiveConfig, prepared: PreparedTables) {
    const { kernel, clock, healthChecks } = parts;
    const { families } = prepared;
    super(parts, {
      ...{ live, families },
      makePlan: (context) =>
        new TablesPlan({ ...context, onPlan: (plan) => healthChecks.note(plan) }),
      readServed: async () =>
        (await readServedByRules("iptables", kernel.iptables, families)).services,
    });
    this.#prepared = prepared;
    const { observeOnly: isDryRun } = live.current;
    this.#reconciler = new TablesReconciler({
      ...{ kernel, clock, isDryRun, families, sharedChains },
    });
    this.checks = new TablesChecks({
      ...{ ...parts, live, node: this.node, exclusive: this.exclusive },
      requestSync: () => this.request(),
      rulesDiffer: () => this.#rulesDiffer(),
    });
  }

  /** The rules planned for a family at the last sync. Empty before the first one. */
  rulesOf(family: IpFamily): RuleSet {
    return this.plan.isPlanned ? this.plan.ruleSet(family) : noRules;
  }

  /** The planned addresses and ports of a service port, including loopback addresses. */
  frontends(port: ServicePort, family: IpFamily): readonly ServedAddress[] {
    const options = this.#options?.shared.families.get(family);
    if (options === undefined) return [];
    const servesLoopback = this.#options?.families.get(family)?.servesLoopback === true;
    const isOnLoopback = servesLoopback && port.nodePort !== 0;
    const onLoopback: readonly ServedAddress[] = isOnLoopback
      ? [{ kind: "node-port", address: loopbackAddresses[family], port: port.nodePort }]
      : [];
    return [...frontendsOf(port, options), ...onLoopback];
  }

  /** The owners of addresses and ports. */
  get claims(): TablesPlan["desired"]["claims"] {
    return this.plan.desired.claims;
  }

  protected override invalidate(): void {
    this.#options = undefined;
    this.#reconciler.invalidate();
  }

  protected override async planChanges(): Promise<PendingChanges> {
    const options = await this.#refreshOptions();
    return inSlices(this.parts.clock, this.plan.update(options));
  }

  protected override async reconcile(): Promise<LoopResult<ModeFindings>> {
    const { desired } = this.plan;
    const report = await this.#reconciler.sync({
      desired,
      ruleSetInSteps: (family) => this.plan.ruleSetInSteps(family),
      findOwners: (family) => this.#findOwners(family),
    });
    const { families, plan, failures } = report;
    const isRead = families.every(({ isFull, hasWorked }) => isFull && hasWorked);
    if (isRead && plan.changes.length + failures.length === 0) this.parts.reporter.verifiedClean();
    // From now on, each Service keeps the addresses that it owns now.
    if (this.#withOwners.size === families.length) desired.claims.settle();
    const findings = { passes: families, countsRules: true } as const;
    return { report, isFull: families.some(({ isFull }) => isFull), findings };
  }

  /** On the first call, determines the owners of a family's contested addresses from the existing rules. */
  async #findOwners(family: IpFamily): Promise<void> {
    if (this.#withOwners.has(family)) return;
    const { desired } = this.plan;
    const undecided = desired.claims.undecided();
    const { iptables } = this.parts.kernel;
    desired.holdClaims(await findHoldersInRules("iptables", undecided, iptables, family));
    this.#withOwners.add(family);
  }

  /** Enables routing to loopback addresses, but only after the rules that restrict it exist. */
  protected override async serve(report: SyncReport): Promise<void> {
    const { kernel, log } = this.parts;
    const servesLoopback = this.#options?.families.get("IPv4")?.servesLoopback === true;
    if (servesLoopback && hasAllRules(report, "filter")) routeLocalnet(kernel, log);
  }

  protected override get dueMs(): number | undefined {
    return this.#reconciler.nextRetryMs;
  }

  /** Returns the same object while no option has changed. */
  async #refreshOptions(): Promise<IptablesNodeOptions> {
    const shared = await this.node.refresh();
    if (this.#options?.shared === shared) return this.#options;
    // Rules that do not belong to a Service also depend on the options.
    this.#reconciler.invalidate();
    const { current: config } = this.live;
    const { hasCounters } = this.#prepared;
    this.#options = iptablesOptionsOf({ config, node: this.node.record, shared, hasCounters });
    return this.#options;
  }

  /**
   * Checks whether a third party may have changed a rule, or whether the rules have not been read for an hour. If so,
   * the next sync compares everything.
   */
  async #rulesDiffer(): Promise<boolean> {
    if (!this.input.isReady) return false;
    const differs = await this.#reconciler.mayDiffer();
    if (differs) this.#reconciler.invalidate();
    else this.parts.reporter.verifiedClean();
    return differs;
  }
}

/** The checks between syncs in iptables mode. */
class TablesChecks extends Checks<CheckContext & { readonly rulesDiffer: () => Promise<boolean> }> {
  protected override tasks(): readonly PeriodicTask[] {
    const { live, rulesDiffer } = this.context;
    const { ruleCheckPeriodMs, syncPeriodMs } = live.current;
    return [
      {
        name: "check of rules",
        ...paceOf(ruleCheckPeriodMs > 0 ? ruleCheckPeriodMs : syncPeriodMs),
        maxShare: checkShare,
        run: () => this.check("rules", rulesDiffer),
      },
    ];
  }
}
