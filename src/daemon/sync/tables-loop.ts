import type { IpFamily } from "../../base/ip.ts";
import type { PeriodicTask } from "../../base/periodic.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { PendingChanges } from "../../model/change-tracker.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { frontendsOf } from "../../plan/frontends.ts";
import type { IptablesNodeOptions } from "../../plan/iptables/options.ts";
import { TablesPlan } from "../../plan/iptables/tables-plan.ts";
import { loopbackAddresses } from "../../plan/loopback-node-ports.ts";
import type { FamilySync } from "../../reconcile/iptables/family-reconciler.ts";
import { TablesReconciler } from "../../reconcile/iptables/tables-reconciler.ts";
import type { RuleSet } from "../../state/rule.ts";
import { iptablesOptionsOf } from "../node/iptables-facts.ts";
import { type PreparedTables, routeLocalnet } from "../node/prepare-tables.ts";
import { readServedByRules } from "../node/served-by-rules.ts";
import type { ServedAddress } from "../operator/daemon-view.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { TablesReporter } from "../report/tables-reporter.ts";
import { type CheckContext, Checks, checkShare, paceOf } from "./checks.ts";
import type { KernelLoopContext } from "./cluster-input.ts";
import { findHoldersInTables } from "./find-holders.ts";
import { Loop, type LoopResult } from "./loop.ts";

export interface TablesLoopContext extends KernelLoopContext {
  readonly reporter: TablesReporter;
}

const noRules: RuleSet = { chains: [], jumps: [] };

/** The loop of iptables mode. */
export class TablesLoop extends Loop<TablesPlan, readonly FamilySync[], TablesLoopContext> {
  readonly #prepared: PreparedTables;
  readonly #reconciler: TablesReconciler;
  protected override readonly checks: Checks;
  #hasGoal = false;
  #options: IptablesNodeOptions | undefined;

  constructor(parts: TablesLoopContext, live: LiveConfig, prepared: PreparedTables) {
    const { kernel, clock, healthChecks } = parts;
    const { families } = prepared;
    super(parts, {
      ...{ live, families },
      makePlan: (context) =>
        new TablesPlan({ ...context, onPlan: (plan) => healthChecks.note(plan) }),
      readServed: async () => (await readServedByRules(kernel.iptables, families)).services,
    });
    this.#prepared = prepared;
    const { isObserveOnly: isDryRun } = live.current;
    this.#reconciler = new TablesReconciler({ kernel, clock, isDryRun, families });
    this.checks = new TablesChecks({
      ...{ ...parts, live, node: this.node, exclusive: this.exclusive },
      requestSync: () => this.request(),
      rulesDiffer: () => this.#rulesDiffer(),
    });
  }

  /** What was planned for a family at the last sync; empty before the first one. */
  rulesOf(family: IpFamily): RuleSet {
    return this.plan.isPlanned ? this.plan.ruleSet(family) : noRules;
  }

  /** Addresses and ports of a service port, as they were planned; those of loopback, too. */
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

  /** Who has which address and port. */
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

  protected override async reconcile(): Promise<LoopResult<readonly FamilySync[]>> {
    if (!this.#hasGoal) {
      await findHoldersInTables(this.plan, this.parts.kernel.iptables, this.families);
    }
    this.#hasGoal = true;
    // From now on every Service holds the addresses that it has.
    this.plan.desired.claims.settle();
    const report = await this.#reconciler.sync(this.plan);
    const { families } = report;
    return { report, isFull: families.some(({ isFull }) => isFull), findings: families };
  }

  /** Packets to node ports on loopback addresses need the rules first. */
  protected override async serve(hasWorked: boolean): Promise<void> {
    const { kernel, log } = this.parts;
    const servesLoopback = this.#options?.families.get("IPv4")?.servesLoopback === true;
    if (hasWorked && servesLoopback) routeLocalnet(kernel, log);
  }

  protected override get dueMs(): number | undefined {
    return this.#reconciler.nextRetryMs;
  }

  /** The same object while nothing in it differs. */
  async #refreshOptions(): Promise<IptablesNodeOptions> {
    const shared = await this.node.refresh();
    if (this.#options?.shared === shared) return this.#options;
    // Rules that belong to no Service depend on them, too.
    this.#reconciler.invalidate();
    const { current: config } = this.live;
    const { hasCounters } = this.#prepared;
    this.#options = iptablesOptionsOf({ config, node: this.node.record, shared, hasCounters });
    return this.#options;
  }

  /** Some program changed a rule, or nobody has looked for an hour: the next sync compares everything. */
  async #rulesDiffer(): Promise<boolean> {
    const differs = this.input.isReady && (await this.#reconciler.mayDiffer());
    if (differs) this.#reconciler.invalidate();
    return differs;
  }
}

/** What is checked between syncs in iptables mode. */
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
