import { none } from "../../base/none.ts";
import { type NextRun, Periodic } from "../../base/periodic.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import type { PendingChanges } from "../../model/change-tracker.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { type Frontend, frontendsOf } from "../../plan/frontends.ts";
import type { PlanOptions } from "../../plan/options.ts";
import { emptyReport, type SyncReport } from "../../reconcile/report.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import type { UserspaceProxier } from "../../userspace/proxier.ts";
import type { ServiceListener } from "../../userspace/service-listeners.ts";
import { findHoldersInRules, readServedByRules } from "../node/served-by-rules.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { PendingChange } from "../report/dry-run-reporter.ts";
import type { ListenerFindings, ListenerReporter } from "../report/listener-reporter.ts";
import type { LoopContext } from "../sync/cluster-input.ts";
import { Loop, type LoopChecks, type LoopOptions, type LoopResult } from "../sync/loop.ts";
import type { ListenerFlows } from "./listener-flows.ts";
import { ListenerPlan } from "./listener-plan.ts";
import type { PortalClaims } from "./portal-claims.ts";
import type { Portals } from "./portals.ts";

/** The open listeners; see {@link UserspaceProxier}. */
export interface Listeners
  extends Pick<
    UserspaceProxier,
    "open" | "isOpen" | "openCount" | "replaceServices" | "retryFailed" | "stop"
  > {
  /** In observe-only mode, what startup would change. */
  readonly pending?: readonly PendingChange[];
}

/** The rules that redirect to the listeners; see {@link Portals}. */
export type RulesToListeners = Pick<Portals, "sync" | "forget">;

export interface UserspaceLoopContext
  extends LoopContext,
    Pick<LoopOptions<ListenerPlan>, "families"> {
  readonly reporter: ListenerReporter;
  readonly proxier: Listeners;
  /** If undefined, there are only listeners, without rules. */
  readonly portals: RulesToListeners | undefined;
  /** Undefined if there are no rules or in observe-only mode. */
  readonly flows?: Pick<ListenerFlows, "follow">;
  /** Undefined if iptables is not available. */
  readonly iptables?: Pick<Iptables, "observe">;
}

/**
 * The loop of userspace mode. Updates the listeners for changed Services and endpoints, then the rules that redirect
 * to the listeners.
 */
export class UserspaceLoop extends Loop<ListenerPlan, ListenerFindings, UserspaceLoopContext> {
  protected override readonly checks: LoopChecks;
  #isSettled = false;
  /** The planning options of the last sync. Undefined before the first one. */
  #options: PlanOptions | undefined;

  constructor(parts: UserspaceLoopContext, live: LiveConfig) {
    const { iptables, families } = parts;
    super(parts, {
      ...{ live, families },
      makePlan: (context) => new ListenerPlan(context),
      readServed: async () =>
        iptables === undefined
          ? none
          : (await readServedByRules("userspace", iptables, families)).services,
    });
    const period = new Periodic(
      {
        name: "sync of everything",
        intervalMs: live.current.syncPeriodMs,
        maxShare: 1,
        run: () => this.#refresh(),
      },
      parts,
    );
    this.checks = { start: () => period.start(), configure() {}, stop: () => period.stop() };
  }

  /**
   * The addresses and ports that rules redirect to a service port, except node ports, which exist at every address.
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

  /** Reads the addresses again. If they or the Node have changed, plans all Services again. */
  protected override async planChanges(): Promise<PendingChanges> {
    this.node.noteStale();
    const options = await this.node.refresh();
    if (options !== this.#options) this.plan.tracker.touchAll();
    this.#options = options;
    const { pending, changed } = await inSlices(this.parts.clock, this.plan.update(options));
    await this.parts.proxier.replaceServices(changed);
    return pending;
  }

  protected override async reconcile(): Promise<LoopResult<ListenerFindings>> {
    const { proxier, reporter } = this.parts;
    const isFull = reporter.history.last === undefined;
    const report = await this.#writeRules();
    const { openCount: connections, pending = none } = proxier;
    return { report, isFull, findings: { listeners: proxier.open().length, connections, pending } };
  }

  /** Makes the next sync read the rules. */
  protected override invalidate(): void {
    this.parts.portals?.forget();
  }

  protected override get dueMs(): undefined {
    return undefined;
  }

  async #writeRules(): Promise<SyncReport> {
    const { portals, flows } = this.parts;
    try {
      await this.#settleClaims();
      const open = this.open();
      const wereRulesMissing = (await portals?.sync(open)) === true;
      await flows?.follow(open, [...this.node.addresses], wereRulesMissing);
      return emptyReport;
    } catch (error) {
      const subject = "rules that redirect to the listeners";
      return {
        ...emptyReport,
        failures: [{ kind: "chain-write", subject, error: error as Error }],
      };
    }
  }

  /**
   * From now on, every Service keeps the addresses that it owns. On the first call, the existing rules determine the
   * owners.
   */
  async #settleClaims(): Promise<void> {
    const { claims } = this.plan;
    const { iptables } = this.parts;
    if (!this.#isSettled && iptables !== undefined) {
      const undecided = claims.undecided();
      for (const family of this.families) {
        claims.holdAll(await findHoldersInRules("userspace", undecided, iptables, family));
      }
    }
    claims.settle();
    this.#isSettled = true;
  }

  /** Requests a sync that reads the rules again, and retries listeners whose port was in use. */
  async #refresh(): Promise<NextRun> {
    this.invalidate();
    await this.parts.proxier.retryFailed();
    this.request();
    return "soon";
  }
}
