import type { IpFamily } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { type NextRun, Periodic } from "../../base/periodic.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { Conntrack, Iptables } from "../../kernel/kernel.ts";
import type { PendingChanges } from "../../model/change-tracker.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { type Frontend, frontendsOf } from "../../plan/frontends.ts";
import type { PlanOptions } from "../../plan/options.ts";
import { TablesReconciler } from "../../reconcile/iptables/tables-reconciler.ts";
import { emptyReport, hasAllRules } from "../../reconcile/report.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import { isLedTo } from "../../userspace/portal-rules.ts";
import type { UserspaceProxier } from "../../userspace/proxier.ts";
import type { ServiceListener } from "../../userspace/service-listeners.ts";
import { findHoldersInRules, readServedByRules } from "../node/served-by-rules.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { PendingChange } from "../report/dry-run-reporter.ts";
import type { LoopReporter, ModeFindings } from "../report/loop-reporter.ts";
import type { LoopContext } from "../sync/cluster-input.ts";
import { Loop, type LoopChecks, type LoopOptions, type LoopResult } from "../sync/loop.ts";
import { ListenerPlan } from "./listener-plan.ts";
import type { PortalClaims } from "./portal-claims.ts";
import { portalGoal, sharedPortalChains } from "./portal-goal.ts";

/** The open listeners; see {@link UserspaceProxier}. */
export interface Listeners
  extends Pick<
    UserspaceProxier,
    "open" | "isOpen" | "openCount" | "replaceServices" | "retryFailed" | "stop"
  > {
  /** In observe-only mode, the listeners that startup would open. */
  readonly pending?: readonly PendingChange[];
  /** See {@link UserspaceProxier.noteGuarded}. Undefined if there are no sockets. */
  noteGuarded?(listeners: readonly OpenListener[]): void;
  /** In observe-only mode, the listeners for which rules are planned. */
  openOnceStarted?(): readonly OpenListener[];
  /** In observe-only mode, called in each sync when the owners of a family's addresses are known. */
  look?(family: IpFamily): Promise<void>;
}

export interface UserspaceLoopContext
  extends LoopContext,
    Pick<LoopOptions<ListenerPlan>, "families"> {
  readonly reporter: LoopReporter;
  readonly proxier: Listeners;
  /** If undefined, there are only listeners, without rules. */
  readonly tables?: { readonly iptables: Iptables; readonly conntrack: Conntrack } | undefined;
}

/**
 * The loop of userspace mode. Updates the listeners for changed Services and endpoints, then the rules that redirect
 * to the listeners.
 */
export class UserspaceLoop extends Loop<ListenerPlan, ModeFindings, UserspaceLoopContext> {
  protected override readonly checks: LoopChecks;
  /** Undefined if there are no rules. */
  readonly #reconciler: TablesReconciler | undefined;
  /** Families whose rules have been read to find the owners of contested addresses. */
  readonly #withOwners = new Set<IpFamily>();
  /** The planning options of the last sync. Undefined before the first one. */
  #options: PlanOptions | undefined;

  constructor(parts: UserspaceLoopContext, live: LiveConfig) {
    const { clock, tables, families } = parts;
    super(parts, {
      ...{ live, families },
      makePlan: (context) => new ListenerPlan(context),
      readServed: async () =>
        tables === undefined
          ? none
          : (await readServedByRules("userspace", tables.iptables, families)).services,
    });
    const { observeOnly: isDryRun } = live.current;
    const shared = { clock, families, isDryRun, sharedChains: sharedPortalChains };
    this.#reconciler = tables && new TablesReconciler({ ...shared, kernel: tables });
    const period = new Periodic(
      {
        name: "sync of everything",
        intervalMs: live.current.syncPeriodMs,
        maxShare: 1,
        run: () => this.#refresh(),
      },
      parts,
    );
    this.checks = {
      start: () => period.start(),
      configure: () => period.configure({ intervalMs: live.current.syncPeriodMs }),
      stop: () => period.stop(),
    };
  }

  /**
   * The addresses and ports that rules redirect to a service port. Node ports are not included, because they exist at
   * every address.
   */
  frontends(port: ServicePort): readonly Frontend[] {
    const options = this.#options?.families.get(port.family);
    return options === undefined
      ? none
      : frontendsOf(port, { ...options, nodePortAddresses: none });
  }

  /** The owners of addresses and ports. */
  get claims(): Pick<PortalClaims, "lostTo"> {
    return this.plan.claims;
  }

  /** The open listeners, each with the addresses that rules redirect to it. */
  open(): readonly OpenListener[] {
    return this.parts.proxier.open().map(({ wanted, localPorts }) => {
      return { wanted: this.won(wanted), localPorts };
    });
  }

  /** Returns the listener with only the addresses that its Service owns. */
  won(wanted: ServiceListener): ServiceListener {
    return this.plan.claims.won(wanted);
  }

  /** Closes listeners and connections. Rules remain until another mode or `--cleanup` removes them. */
  override async stop(): Promise<void> {
    await super.stop();
    await this.parts.proxier.stop();
  }

  /** Rereads the node's addresses. If they or the Node object have changed, plans all Services again. */
  protected override async planChanges(): Promise<PendingChanges> {
    this.node.noteStale();
    const options = await this.node.refresh();
    if (options !== this.#options) this.plan.tracker.touchAll();
    this.#options = options;
    const { pending, changed } = await inSlices(this.parts.clock, this.plan.update(options));
    await this.parts.proxier.replaceServices(changed);
    return pending;
  }

  protected override async reconcile(): Promise<LoopResult<ModeFindings>> {
    const { proxier, reporter, log } = this.parts;
    const open = (): readonly OpenListener[] => proxier.openOnceStarted?.() ?? this.open();
    const before = proxier.open();
    const goal = portalGoal(open, [...this.node.addresses], {
      findOwners: (family) => this.#findOwners(family),
      onWritten: (family, written) => {
        const isGuarded = ({ wanted }: OpenListener): boolean =>
          wanted.family === family && isLedTo(this.won(wanted));
        if (hasAllRules(written, "filter")) proxier.noteGuarded?.(before.filter(isGuarded));
      },
    });
    const written = await this.#reconciler?.sync(goal);
    if (written === undefined) for (const family of this.families) await this.#findOwners(family);
    // From now on, each Service keeps the addresses that it owns now.
    if (this.#withOwners.size === this.families.length) this.plan.claims.settle();
    const { openCount: connections, pending = none } = proxier;
    const listeners = proxier.open().length;
    log.verbose(2, "Listeners of userspace mode", { listeners, connections });
    const passes = written?.families;
    return {
      report: written ?? emptyReport,
      isFull: passes?.some(({ isFull }) => isFull) ?? reporter.history.last === undefined,
      findings: { passes, pending, figures: { listeners } },
    };
  }

  /** Makes the next sync read the rules. */
  protected override invalidate(): void {
    this.#reconciler?.invalidate();
  }

  protected override get dueMs(): number | undefined {
    return this.#reconciler?.nextRetryMs;
  }

  /** On the first call, determines the owners of a family's contested addresses from the existing rules. */
  async #findOwners(family: IpFamily): Promise<void> {
    const { tables, proxier } = this.parts;
    const { claims } = this.plan;
    if (!this.#withOwners.has(family) && tables !== undefined) {
      const undecided = claims.undecided();
      claims.holdAll(await findHoldersInRules("userspace", undecided, tables.iptables, family));
    }
    this.#withOwners.add(family);
    await proxier.look?.(family);
  }

  /** Requests a sync, which reads the rules if they may differ, and retries listeners whose port was in use. */
  async #refresh(): Promise<NextRun> {
    await this.parts.proxier.retryFailed();
    if (await this.#reconciler?.mayDiffer()) this.invalidate();
    this.request();
    return "soon";
  }
}
