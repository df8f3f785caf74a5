import type { Clock } from "../../base/clock.ts";
import { earliest } from "../../base/earliest.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Conntrack, Iptables } from "../../kernel/kernel.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import { OutcomeCollector } from "../apply/outcome.ts";
import { emptyPlan } from "../change-plan.ts";
import { ConntrackCleaner, cleanFlows, flowCheckOf } from "../kinds/stale-flows.ts";
import { emptyReport, reportOf, type SyncReport } from "../report.ts";
import { joinReports, noRejections } from "../status/rejection.ts";
import { type FamilyGoal, FamilyReconciler, type FamilySync } from "./family-reconciler.ts";

export interface TablesReconcilerContext {
  readonly kernel: { readonly iptables: Iptables; readonly conntrack: Conntrack };
  readonly clock: Clock;
  /** Nothing is written: each sync compares everything, and reports what it would change. */
  readonly isDryRun: boolean;
}

export interface TablesGoal {
  readonly families: readonly FamilyGoal[];
  readonly touchedUdp: readonly UdpDestination[];
  /** Everything; asked for only where rules were lost or not written. */
  readonly allUdp: () => readonly UdpDestination[];
}

export interface TablesReport extends SyncReport {
  readonly families: readonly FamilySync[];
}

/** Brings the tables to what is planned. A rejected change is retried with back-off and costs its own Service only. */
export class TablesReconciler {
  readonly #context: TablesReconcilerContext;
  readonly #cleaner: ConntrackCleaner;
  readonly #families = new Map<IpFamily, FamilyReconciler>();

  constructor(context: TablesReconcilerContext) {
    const { kernel, clock } = context;
    this.#context = context;
    this.#cleaner = new ConntrackCleaner(kernel.conntrack, clock);
  }

  /** The next sync compares everything again. */
  invalidate(): void {
    for (const family of this.#families.values()) family.invalidate();
  }

  /** Monotonic; when a rejected change is retried. Undefined: none was rejected. */
  get nextRetryMs(): number | undefined {
    return earliest([...this.#families.values()].map(({ nextRetryMs }) => nextRetryMs));
  }

  /** Whether any program changed rules since our last write; true if that is unknown. */
  mayDiffer(family: IpFamily): Promise<boolean> {
    return this.#of(family).mayDiffer();
  }

  /** Never rejects: what failed is in the report. */
  async sync(goal: TablesGoal): Promise<TablesReport> {
    const { isDryRun } = this.#context;
    if (isDryRun) this.invalidate();
    const outcomes = new OutcomeCollector();
    const families: FamilySync[] = [];
    for (const one of goal.families) {
      families.push(await this.#of(one.family).sync(one, outcomes, isDryRun));
    }
    if (!isDryRun) await this.#cleanUdp(goal, families, outcomes);
    const rejections = [...this.#families.values()].map((family) => family.takeRejections());
    return {
      ...{ ...emptyReport, ...reportOf(outcomes), families },
      plan: { ...emptyPlan, changes: families.flatMap(({ changes }) => changes) },
      refusals: rejections.reduce(joinReports, noRejections),
    };
  }

  #of(family: IpFamily): FamilyReconciler {
    const { kernel, clock } = this.#context;
    const { iptables } = kernel;
    const one = this.#families.get(family) ?? new FamilyReconciler({ family, iptables, clock });
    this.#families.set(family, one);
    return one;
  }

  /** While rules were missing, any client may have got a flow that leads nowhere. */
  #cleanUdp(
    { touchedUdp, allUdp }: TablesGoal,
    families: readonly FamilySync[],
    outcomes: OutcomeCollector,
  ): Promise<void> {
    const wereMended = families.some(({ isFull, changes }) => isFull && changes.length > 0);
    const destinations = wereMended ? [...touchedUdp, ...allUdp()] : touchedUdp;
    return cleanFlows(this.#cleaner, destinations.map(flowCheckOf), outcomes);
  }
}
