import type { Clock } from "../../base/clock.ts";
import { earliest } from "../../base/earliest.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Conntrack, Iptables } from "../../kernel/kernel.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import { OutcomeCollector } from "../apply/outcome.ts";
import { emptyPlan } from "../change-plan.ts";
import { ConntrackCleaner, cleanFlows, flowCheckOf } from "../kinds/stale-flows.ts";
import { emptyReport, reportOf, type SyncReport } from "../report.ts";
import { type FamilyGoal, FamilyReconciler, type FamilySync } from "./family-reconciler.ts";

export interface TablesReconcilerContext {
  readonly kernel: { readonly iptables: Iptables; readonly conntrack: Conntrack };
  readonly clock: Clock;
  /** Nothing is written: each sync compares everything, and reports what it would change. */
  readonly isDryRun: boolean;
  readonly families: readonly IpFamily[];
}

/** What a sync is to reach. */
export interface TablesGoal extends FamilyGoal {
  readonly desired: {
    takeTouchedUdp(): readonly UdpDestination[];
    /** Asked for only if rules were lost or not written. */
    allUdp(): readonly UdpDestination[];
  };
}

export interface TablesReport extends SyncReport {
  readonly families: readonly FamilySync[];
}

/** Brings the tables to what is planned. A rejected change is retried with back-off and costs its own Service only. */
export class TablesReconciler {
  readonly #isDryRun: boolean;
  readonly #cleaner: ConntrackCleaner;
  readonly #families: readonly FamilyReconciler[];

  constructor({ kernel, clock, isDryRun, families }: TablesReconcilerContext) {
    const { iptables } = kernel;
    this.#isDryRun = isDryRun;
    this.#cleaner = new ConntrackCleaner(kernel.conntrack, clock);
    this.#families = families.map((family) => new FamilyReconciler(family, iptables, clock));
  }

  /** The next sync compares everything again. */
  invalidate(): void {
    for (const family of this.#families) family.invalidate();
  }

  /** Monotonic; when a rejected change is retried. Undefined: none was rejected. */
  get nextRetryMs(): number | undefined {
    return earliest(this.#families.map(({ nextRetryMs }) => nextRetryMs));
  }

  /** Whether everything has to be compared; see {@link FamilyReconciler.mayDiffer}. */
  async mayDiffer(): Promise<boolean> {
    for (const family of this.#families) if (await family.mayDiffer()) return true;
    return false;
  }

  /** Never rejects: what failed is in the report. */
  async sync(goal: TablesGoal): Promise<TablesReport> {
    if (this.#isDryRun) this.invalidate();
    const touchedUdp = goal.desired.takeTouchedUdp();
    const outcomes = new OutcomeCollector();
    const families: FamilySync[] = [];
    for (const one of this.#families) {
      families.push(await one.sync(goal, outcomes, this.#isDryRun));
    }
    if (!this.#isDryRun) {
      // While rules were missing, any client may have got a flow that leads nowhere.
      const wereMended = families.some(({ isFull, changes }) => isFull && changes.length > 0);
      const destinations = wereMended ? [...touchedUdp, ...goal.desired.allUdp()] : touchedUdp;
      await cleanFlows(this.#cleaner, destinations.map(flowCheckOf), outcomes);
    }
    return {
      ...{ ...emptyReport, ...reportOf(outcomes), families },
      plan: { ...emptyPlan, changes: families.flatMap(({ changes }) => changes) },
      rejections: this.#families.flatMap(({ rejections }) => rejections),
    };
  }
}
