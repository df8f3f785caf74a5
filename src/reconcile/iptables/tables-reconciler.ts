import type { Clock } from "../../base/clock.ts";
import { earliest } from "../../base/earliest.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { ServiceName } from "../../base/service-name.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { Conntrack, Iptables } from "../../kernel/kernel.ts";
import type { TouchedChain } from "../../plan/iptables/desired-tables.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import { chainKey, type Rule, type RuleSet, type TableName } from "../../state/rule.ts";
import { OutcomeCollector } from "../apply/outcome.ts";
import type { Change } from "../change.ts";
import { emptyPlan } from "../change-plan.ts";
import type { PlannedRuleChange } from "../kinds/diff-rules.ts";
import { subjectOf } from "../kinds/kinds.ts";
import { restoreRules } from "../kinds/restore.ts";
import { ConntrackCleaner, flowCheckOf } from "../kinds/stale-flows.ts";
import { emptyReport, type Failure, reportOf, type SyncReport } from "../report.ts";
import { joinReports, noRejections } from "../status/rejection.ts";
import { StatusTable } from "../status/status-table.ts";
import { subjectKey } from "../subject.ts";
import { CachedTables } from "./cached-tables.ts";
import { planEverything, planTouched } from "./plan-writes.ts";
import { type TablesWrite, writeInStages } from "./write-in-stages.ts";

export interface TablesReconcilerContext {
  readonly kernel: { readonly iptables: Iptables; readonly conntrack: Conntrack };
  readonly clock: Clock;
  /** Nothing is written: each sync compares everything, and reports what it would change. */
  readonly isDryRun: boolean;
}

/** What a sync is to reach in one family. */
export interface FamilyGoal {
  readonly family: IpFamily;
  /** Everything; asked for only if all is compared, or if something is rejected. */
  readonly wanted: () => Iterator<unknown, RuleSet>;
  readonly touched: Iterable<TouchedChain>;
}

export interface TablesGoal {
  readonly families: readonly FamilyGoal[];
  readonly touchedUdp: readonly UdpDestination[];
  /** Everything; asked for only where rules were lost or not written. */
  readonly allUdp: () => readonly UdpDestination[];
}

/** What one sync of one family did. */
export interface FamilySync {
  readonly family: IpFamily;
  /** Everything was compared. */
  readonly isFull: boolean;
  /** Worked out before the first write. */
  readonly changes: readonly PlannedRuleChange[];
  /** Made changes, and rejected ones. */
  readonly write: TablesWrite;
  /** Rules could not be read, or the outcome of a restore is unknown. */
  readonly failure: Failure | undefined;
  readonly elapsedMs: number;
  /** Rules in the chains that were written, by table. */
  readonly writtenRules: ReadonlyMap<TableName, number>;
  /** Rules in all our chains, by table; empty if that is unknown. */
  readonly totalRules: ReadonlyMap<TableName, number>;
}

export interface TablesReport extends SyncReport {
  readonly families: readonly FamilySync[];
}

interface PlannedWrites extends Pick<FamilySync, "isFull" | "changes"> {
  readonly cached: CachedTables;
}

const nothingWritten: TablesWrite = { made: [], rejected: [] };
const noTables = new CachedTables();

/**
 * Brings the tables to what is planned: one run of iptables-restore for each family that has changes, with the chains
 * that changed. At start, when something may differ, and after an unknown outcome everything is compared. A rejected
 * change is retried with back-off and costs its own Service only.
 */
export class TablesReconciler {
  readonly #iptables: Iptables;
  readonly #clock: Clock;
  readonly #isDryRun: boolean;
  readonly #cleaner: ConntrackCleaner;
  readonly #statuses = new Map<IpFamily, StatusTable>();
  /** A family without an entry is compared as a whole. */
  readonly #cached = new Map<IpFamily, CachedTables>();
  /** As they were after the last write. */
  readonly #generations = new Map<IpFamily, number | undefined>();

  constructor({ kernel, clock, isDryRun }: TablesReconcilerContext) {
    this.#iptables = kernel.iptables;
    this.#clock = clock;
    this.#isDryRun = isDryRun;
    this.#cleaner = new ConntrackCleaner(kernel.conntrack, clock);
  }

  /** The next sync compares everything again. */
  invalidate(): void {
    this.#cached.clear();
  }

  /** Monotonic; when a rejected change is retried. Undefined: none was rejected. */
  get nextRetryMs(): number | undefined {
    return earliest([...this.#statuses.values()].map(({ nextRetryMs }) => nextRetryMs));
  }

  /** Whether any program changed rules since our last write; true if that is unknown. */
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
    for (const { write } of families) {
      for (const { kind } of write.made) outcomes.count(kind);
      outcomes.refused.push(...write.rejected);
    }
    const cleaning = this.#isDryRun ? undefined : await this.#cleanUdp(goal, families, outcomes);
    const failures = [...families.map(({ failure }) => failure), cleaning];
    const report = reportOf(outcomes);
    const unknown = families.filter(({ failure }) => failure?.kind === "chain-write");
    return {
      ...emptyReport,
      ...report,
      plan: { ...emptyPlan, changes: families.flatMap(({ changes }) => changes) },
      failedRestores: [...report.failedRestores, ...unknown.map(({ family }) => family)],
      failures: failures.filter((failure) => failure !== undefined),
      refusals: [...this.#statuses.values()]
        .map((status) => status.takeRejections())
        .reduce(joinReports, noRejections),
      families,
    };
  }

  async #syncFamily(goal: FamilyGoal): Promise<FamilySync> {
    const { family } = goal;
    const beganMs = this.#clock.monotonicMs();
    let planned: PlannedWrites = { isFull: true, changes: [], cached: noTables };
    let write = nothingWritten;
    let failure: Failure | undefined;
    try {
      planned = await this.#plan(goal);
      if (!this.#isDryRun) ({ planned, write } = await this.#write(goal, planned));
    } catch (error) {
      const kind = planned.changes.length === 0 ? "observe" : "chain-write";
      failure = { kind, subject: `${family} iptables`, error: error as Error };
    }
    const { isFull, changes } = planned;
    return {
      ...{ family, isFull, changes, write, failure },
      elapsedMs: this.#clock.monotonicMs() - beganMs,
      writtenRules: rulesIn(write.made),
      totalRules: this.#cached.get(family)?.totals ?? new Map(),
    };
  }

  /** Rejected changes that are not due are left out, unless planning touched them. */
  async #plan({ family, wanted, touched }: FamilyGoal): Promise<PlannedWrites> {
    const nowMs = this.#clock.monotonicMs();
    const status = this.#statusOf(family);
    const cached = this.#cached.get(family);
    const render = (rule: Rule): string => this.#iptables.render(family, rule);
    if (cached !== undefined && !isDue(status, nowMs)) {
      const changes = await inSlices(this.#clock, planTouched(family, touched, cached, render));
      return { isFull: false, changes, cached };
    }
    const planned = await inSlices(this.#clock, wanted(), "large");
    const observed = await this.#iptables.observe(family, { planned, hasOthers: true });
    const comparison = planEverything(family, planned, observed, render);
    const compared = await inSlices(this.#clock, comparison, "large");
    const changes = compared.changes.filter((one) => !status.isPending(subjectOf(one), nowMs));
    return { isFull: true, changes, cached: compared.cached };
  }

  /** Until the outcome is known, nothing is known. */
  async #write(
    goal: FamilyGoal,
    planned: PlannedWrites,
  ): Promise<{ readonly planned: PlannedWrites; readonly write: TablesWrite }> {
    const { family } = goal;
    const isAnyRejected = !this.#statusOf(family).isEmpty;
    this.#cached.delete(family);
    if (!isAnyRejected) {
      const rejection = await restoreRules(planned.changes, this.#iptables);
      if (rejection === undefined) {
        planned.cached.note(planned.changes);
        await this.#noteWritten(family, planned, planned.changes);
        return { planned, write: { made: planned.changes, rejected: [] } };
      }
    }
    // Tables before the rejected one were written, and a third party may have caused the rejection.
    const again = isAnyRejected ? planned : await this.#plan(goal);
    const context = {
      family,
      cached: again.cached,
      wanted: await inSlices(this.#clock, goal.wanted(), "large"),
      iptables: this.#iptables,
    };
    const write = await writeInStages(again.changes, context);
    this.#noteRejected(family, again, write);
    await this.#noteWritten(family, again, write.made);
    return { planned: again, write };
  }

  async #noteWritten(
    family: IpFamily,
    { isFull, cached }: PlannedWrites,
    made: readonly PlannedRuleChange[],
  ): Promise<void> {
    // If nothing was written and nothing was read, the generation may be that of a third party's change.
    if (isFull || made.length > 0) {
      this.#generations.set(family, await this.#iptables.readGeneration(family));
    }
    this.#cached.set(family, cached);
  }

  #noteRejected(
    family: IpFamily,
    { isFull, changes, cached }: PlannedWrites,
    { rejected }: TablesWrite,
  ): void {
    const status = this.#statusOf(family);
    const nowMs = this.#clock.monotonicMs();
    const again = status.reject(rejected, servicesOfRules, nowMs);
    const tried = new Set(changes.map(keyOf));
    status.endRejections((one) => {
      const { subject } = one;
      const isReduced =
        subject.type === "chain" &&
        cached.rejectedRules.has(chainKey(subject.table, subject.chainName));
      if (again.has(one) || isReduced) return false;
      return tried.has(subjectKey(subject)) || (isFull && !status.isPending(subject, nowMs));
    });
  }

  #statusOf(family: IpFamily): StatusTable {
    const status = this.#statuses.get(family) ?? new StatusTable();
    this.#statuses.set(family, status);
    return status;
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

function isDue({ nextRetryMs = Number.POSITIVE_INFINITY }: StatusTable, nowMs: number): boolean {
  return nextRetryMs <= nowMs;
}

function keyOf(change: PlannedRuleChange): string {
  return subjectKey(subjectOf(change));
}

/** The Service that the comments of a chain name. */
function servicesOfRules(change: Change): readonly ServiceName[] {
  if (change.kind !== "chain-write") return [];
  for (const { matches } of change.chain.rules) {
    for (const match of matches) {
      const name =
        match.kind === "comment" ? /(?:^| )([^ /:]+\/[^ /:]+)/.exec(match.text)?.[1] : undefined;
      if (name !== undefined) return [name as ServiceName];
    }
  }
  return [];
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
