import type { Clock } from "../../base/clock.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Conntrack, Iptables } from "../../kernel/kernel.ts";
import type { TouchedChain } from "../../plan/iptables/desired-tables.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import type { RuleSet, TableName } from "../../state/rule.ts";
import { OutcomeCollector } from "../apply/outcome.ts";
import { sendRules } from "../apply/requests.ts";
import { ConntrackCleaner, flowCheckOf } from "../apply/stale-flows.ts";
import { emptyPlan } from "../change-plan.ts";
import type { PlannedRuleChange } from "../diff/diff-rules.ts";
import type { RenderRule } from "../diff/rule-texts.ts";
import { emptyReport, type Failure, type SyncReport } from "../report.ts";
import { planEverything, planTouched } from "./plan-writes.ts";
import { PresentChains } from "./present-chains.ts";

export interface TablesReconcilerParts {
  readonly kernel: { readonly iptables: Iptables; readonly conntrack: Conntrack };
  readonly clock: Clock;
  /** Nothing is written: each sync compares everything, and reports what it would change. */
  readonly isDryRun: boolean;
}

/** What a sync is to reach in one family. */
export interface FamilyGoal {
  readonly family: IpFamily;
  /** Everything; asked for only where all is compared. */
  readonly wanted: () => RuleSet;
  readonly touched: readonly TouchedChain[];
}

export interface TablesGoal {
  readonly families: readonly FamilyGoal[];
  readonly touchedUdp: readonly UdpDestination[];
  /** Everything; asked for only where rules were lost or not written. */
  readonly allUdp: () => readonly UdpDestination[];
}

/** What a sync of one family came to. */
export interface FamilySync {
  readonly family: IpFamily;
  /** Everything was compared. */
  readonly isFull: boolean;
  /** Made, unless it failed or is a dry run. */
  readonly changes: readonly PlannedRuleChange[];
  /** `chain-write`: iptables-restore was run, and failed. */
  readonly failure: Failure | undefined;
  readonly elapsedMs: number;
  /** Rules in the chains that were written, by table. */
  readonly writtenRules: ReadonlyMap<TableName, number>;
  /** Rules in all our chains, by table; empty where that is not known. */
  readonly totalRules: ReadonlyMap<TableName, number>;
}

export interface TablesReport extends SyncReport {
  readonly families: readonly FamilySync[];
}

/**
 * Brings the tables to what is planned: one run of iptables-restore for each family that has changes, with the chains
 * that changed. At start, when something may differ, and after a failure everything is compared.
 */
export class TablesReconciler {
  readonly #iptables: Iptables;
  readonly #clock: Clock;
  readonly #isDryRun: boolean;
  readonly #cleaner: ConntrackCleaner;
  /** Chains of ours that are there, by family; a family without an entry is compared as a whole. */
  readonly #present = new Map<IpFamily, PresentChains>();
  /** As they were after the last write. */
  readonly #generations = new Map<IpFamily, number | undefined>();

  constructor({ kernel, clock, isDryRun }: TablesReconcilerParts) {
    this.#iptables = kernel.iptables;
    this.#clock = clock;
    this.#isDryRun = isDryRun;
    this.#cleaner = new ConntrackCleaner(kernel.conntrack, clock);
  }

  /** The next sync compares everything again. */
  invalidate(): void {
    this.#present.clear();
  }

  /** Whether any program changed rules since our last write; true where that is unknown. */
  async mayDiffer(family: IpFamily): Promise<boolean> {
    const generation = await this.#iptables.readGeneration(family);
    return generation === undefined || generation !== this.#generations.get(family);
  }

  /** Never rejects: what failed is in the report. */
  async sync(goal: TablesGoal): Promise<TablesReport> {
    if (this.#isDryRun) this.invalidate();
    const families: FamilySync[] = [];
    for (const family of goal.families) families.push(await this.#syncFamily(family));
    const outcomes = new OutcomeCollector();
    for (const { changes, failure } of families) {
      if (failure === undefined) for (const { kind } of changes) outcomes.count(kind);
    }
    const cleaning = this.#isDryRun ? undefined : await this.#cleanUdp(goal, families, outcomes);
    const failures = [...families.map(({ failure }) => failure), cleaning];
    const failedRestores = families.filter(({ failure }) => failure?.kind === "chain-write");
    return {
      ...emptyReport,
      plan: { ...emptyPlan, changes: families.flatMap(({ changes }) => changes) },
      changes: outcomes.done,
      failedRestores: failedRestores.map(({ family }) => family),
      failures: failures.filter((failure) => failure !== undefined),
      conntrackPasses: outcomes.conntrackPasses,
      families,
    };
  }

  async #syncFamily(goal: FamilyGoal): Promise<FamilySync> {
    const { family } = goal;
    const beganMs = this.#clock.monotonicMs();
    const isFull = !this.#present.has(family);
    let changes: readonly PlannedRuleChange[] = [];
    let failure: Failure | undefined;
    try {
      const planned = await this.#plan(goal);
      changes = planned.changes;
      if (!this.#isDryRun) await this.#carryOut(family, planned, isFull);
    } catch (error) {
      const kind = changes.length === 0 ? "observe" : "chain-write";
      failure = { kind, subject: `${family} iptables`, error: error as Error };
    }
    return {
      family,
      isFull,
      changes,
      failure,
      elapsedMs: this.#clock.monotonicMs() - beganMs,
      writtenRules: failure === undefined ? rulesIn(changes) : new Map(),
      totalRules: this.#present.get(family)?.totals ?? new Map(),
    };
  }

  async #plan({ family, wanted, touched }: FamilyGoal): Promise<PlannedWrites> {
    const present = this.#present.get(family);
    if (present !== undefined) return { changes: planTouched(family, touched, present), present };
    const everything = wanted();
    const scope = { planned: everything, hasOthers: true } as const;
    const observed = await this.#iptables.observe(family, scope);
    const render: RenderRule = (rule) => this.#iptables.render(family, rule);
    const changes = planEverything(family, everything, observed, render);
    return { changes, present: new PresentChains(everything) };
  }

  /** Until the restore ended well nobody knows what is there. */
  async #carryOut(
    family: IpFamily,
    { changes, present }: PlannedWrites,
    isFull: boolean,
  ): Promise<void> {
    this.#present.delete(family);
    await this.#write(family, changes, isFull);
    present.note(changes);
    this.#present.set(family, present);
  }

  async #write(
    family: IpFamily,
    changes: readonly PlannedRuleChange[],
    isFull: boolean,
  ): Promise<void> {
    if (changes.length > 0) {
      // What was not rejected is written; everything is compared again next time.
      const [failed] = await sendRules(changes, { iptables: this.#iptables });
      if (failed !== undefined) throw failed.error;
    }
    // Nothing was written and nothing was read: what is known stays as it is.
    else if (!isFull) return;
    this.#generations.set(family, await this.#iptables.readGeneration(family));
  }

  /** While rules were missing, any client may have got a flow that leads nowhere. */
  async #cleanUdp(
    { touchedUdp, allUdp }: TablesGoal,
    families: readonly FamilySync[],
    outcomes: OutcomeCollector,
  ): Promise<Failure | undefined> {
    try {
      const wereMended = families.some(({ isFull, changes }) => isFull && changes.length > 0);
      const destinations = wereMended ? [...touchedUdp, ...allUdp()] : touchedUdp;
      await this.#cleaner.clean(destinations.map(flowCheckOf), (pass) => outcomes.notePass(pass));
      return undefined;
    } catch (error) {
      const subject = "stale conntrack entries";
      return { kind: "conntrack-delete", subject, error: error as Error };
    }
  }
}

interface PlannedWrites {
  readonly changes: readonly PlannedRuleChange[];
  readonly present: PresentChains;
}

function rulesIn(changes: readonly PlannedRuleChange[]): ReadonlyMap<TableName, number> {
  const counts = new Map<TableName, number>();
  for (const change of changes) {
    if (change.kind !== "chain-write") continue;
    const { table, rules } = change.chain;
    counts.set(table, (counts.get(table) ?? 0) + rules.length);
  }
  return counts;
}
