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
  /** If true, nothing is written: each sync compares everything and reports the changes that it would make. */
  readonly isDryRun: boolean;
  readonly families: readonly IpFamily[];
}

/** The desired state of a sync. */
export interface TablesGoal extends FamilyGoal {
  readonly desired: {
    takeTouchedUdp(): readonly UdpDestination[];
    /** Only requested if rules were missing or were not written. */
    allUdp(): readonly UdpDestination[];
  };
}

export interface TablesReport extends SyncReport {
  readonly families: readonly FamilySync[];
}

/**
 * Brings the tables to the planned state. A rejected change is retried with back-off and affects only its own
 * Service.
 */
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

  /** Makes the next sync compare everything. */
  invalidate(): void {
    for (const family of this.#families) family.invalidate();
  }

  /** When a rejected change is retried (monotonic); undefined if there are none. */
  get nextRetryMs(): number | undefined {
    return earliest(this.#families.map(({ nextRetryMs }) => nextRetryMs));
  }

  /** Whether everything must be compared; see {@link FamilyReconciler.mayDiffer}. */
  async mayDiffer(): Promise<boolean> {
    for (const family of this.#families) if (await family.mayDiffer()) return true;
    return false;
  }

  /** Never rejects: failures are in the report. */
  async sync(goal: TablesGoal): Promise<TablesReport> {
    if (this.#isDryRun) this.invalidate();
    const touchedUdp = goal.desired.takeTouchedUdp();
    const outcomes = new OutcomeCollector();
    const families: FamilySync[] = [];
    for (const one of this.#families) {
      families.push(await one.sync(goal, outcomes, this.#isDryRun));
    }
    if (!this.#isDryRun) {
      // While rules were missing, any client may have created a conntrack entry that leads nowhere.
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
