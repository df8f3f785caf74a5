import type { Clock } from "../../base/clock.ts";
import { earliest } from "../../base/earliest.ts";
import type { IpFamily } from "../../base/ip.ts";
import { silentLogger } from "../../base/log.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { noMarks } from "../../plan/dirty-keys.ts";
import type { DesiredTables } from "../../plan/iptables/desired-tables.ts";
import {
  type Chain,
  type ChainKey,
  chainKey,
  type RuleSet,
  type TableName,
} from "../../state/rule.ts";
import { Outcomes } from "../apply/outcome.ts";
import type { Change } from "../change.ts";
import { ConntrackCleaner, cleanFlows, KnownAnswers } from "../kinds/stale-flows.ts";
import { Reconciler } from "../reconciler.ts";
import { emptyReport, type Failure, reportOf, type SyncReport } from "../report.ts";
import { emptyGoal } from "../sync-goal.ts";
import { TablesPass } from "./tables-pass.ts";
import type { SharedChain } from "./write-in-stages.ts";

export interface TablesReconcilerContext {
  readonly kernel: Pick<Kernel, "iptables" | "conntrack">;
  readonly clock: Clock;
  /** The chains to which several Services contribute, from the first that a packet traverses to the last. */
  readonly sharedChains: readonly SharedChain[];
  /** If true, nothing is written. Each sync compares everything and reports the changes that it would make. */
  readonly isDryRun: boolean;
  readonly families: readonly IpFamily[];
}

/** The desired state of a sync. */
export interface TablesGoal {
  /**
   * Determines which Services own contested addresses. Called before a family's rules are planned. If it rejects, this
   * family is not synced, but the other one is. If undefined, all owners are already known.
   */
  readonly findOwners?: (family: IpFamily) => Promise<void>;
  ruleSetInSteps(family: IpFamily): Iterator<unknown, RuleSet>;
  /** Called when a family's rules are written, before conntrack entries are checked. */
  onWritten?(family: IpFamily, report: SyncReport): void;
  readonly desired: Pick<DesiredTables, "rebuild" | "udpDestinations">;
}

/** The result of one sync of one family. */
export interface FamilySync {
  readonly family: IpFamily;
  /** Whether the kernel's rules were read. */
  readonly isFull: boolean;
  /** False if rules could not be read or the outcome of a restore is unknown. */
  readonly hasWorked: boolean;
  readonly elapsedMs: number;
  /** Number of rules in the written chains, by table. */
  readonly writtenRules: ReadonlyMap<TableName, number>;
  /** Number of rules in all our chains, by table. Empty if unknown. */
  readonly totalRules: ReadonlyMap<TableName, number>;
}

export interface TablesReport extends SyncReport {
  readonly families: readonly FamilySync[];
}

/** Rules are read at least this often, even if no change is detected. */
const longestUnreadMs = 3_600_000;

/** One family's reconciler, and the time at which its rules were last read or written. */
interface Family {
  readonly family: IpFamily;
  readonly reconciler: Reconciler;
  /**
   * The tables' generation after the last write. Undefined if a third party may have changed rules before that write.
   */
  generation: number | undefined;
  /** The tables' generation before the running sync. Undefined if a third party has changed rules since then. */
  before: number | undefined;
  readAtMs: number;
  /** Chains whose last change is pending, in their planned form. */
  pending: ReadonlyMap<ChainKey, Chain | undefined>;
}

/**
 * Brings the tables of iptables mode or userspace mode to the planned state. Families are independent: if one family's
 * rules cannot be read or written, the other family is still served.
 */
export class TablesReconciler {
  readonly #context: TablesReconcilerContext;
  readonly #cleaner: ConntrackCleaner;
  readonly #answers = new KnownAnswers();
  readonly #families: readonly Family[];
  readonly #sharedKeys: ReadonlySet<ChainKey>;

  constructor(context: TablesReconcilerContext) {
    const { clock, families, sharedChains } = context;
    // The reconcilers of rules do not use the other parts of `kernel`.
    const kernel = context.kernel as Kernel;
    this.#sharedKeys = new Set(sharedChains.map(({ key }) => key));
    this.#context = context;
    this.#cleaner = new ConntrackCleaner(kernel.conntrack, clock);
    this.#families = families.map((family) => {
      const one: Family = {
        family,
        reconciler: new Reconciler({
          ...{ ...context, kernel, log: silentLogger, parts: ["rules"] },
          newPass: (pass) =>
            new TablesPass({
              ...{ ...pass, family, clock, sharedChains },
              beforeWrite: async () => {
                if ((await this.#readGeneration(family)) !== one.before) one.before = undefined;
              },
            }),
        }),
        generation: undefined,
        before: undefined,
        readAtMs: Number.NEGATIVE_INFINITY,
        pending: new Map(),
      };
      return one;
    });
  }

  /** Makes the next sync read all rules. */
  invalidate(): void {
    for (const { reconciler } of this.#families) reconciler.invalidate();
  }

  /** When a rejected change is retried (monotonic). Undefined if there are none. */
  get nextRetryMs(): number | undefined {
    return earliest(this.#families.map(({ reconciler }) => reconciler.nextRetryMs));
  }

  /**
   * Whether any program may have changed rules since our last write, or whether they have not been read for an hour.
   */
  async mayDiffer(): Promise<boolean> {
    const { kernel, clock } = this.#context;
    for (const { family, generation, readAtMs } of this.#families) {
      if (clock.monotonicMs() - readAtMs >= longestUnreadMs) return true;
      const found = await kernel.iptables.readGeneration(family);
      if (found === undefined || found !== generation) return true;
    }
    return false;
  }

  /** Never rejects: failures are in the report. */
  async sync(goal: TablesGoal): Promise<TablesReport> {
    const outcomes = new Outcomes();
    const syncs: (readonly [FamilySync, SyncReport])[] = [];
    for (const one of this.#families) {
      const sync = await this.#syncFamily(one, goal);
      goal.onWritten?.(one.family, sync[1]);
      syncs.push(sync);
    }
    if (!this.#context.isDryRun) {
      const wereMended = syncs.some(([{ isFull }, { plan }]) => isFull && plan.changes.length > 0);
      const checks = this.#answers.changed(goal.desired.udpDestinations(), wereMended);
      await cleanFlows(this.#cleaner, checks, outcomes);
    }
    const flows = { ...emptyReport, ...reportOf(outcomes) };
    return {
      ...[...syncs.map(([, report]) => report), flows].reduce(merged),
      families: syncs.map(([family]) => family),
    };
  }

  /** The tables' generation. Undefined if unknown. */
  #readGeneration(family: IpFamily): Promise<number | undefined> {
    return this.#context.kernel.iptables.readGeneration(family).catch(() => undefined);
  }

  async #syncFamily(
    one: Family,
    goal: TablesGoal,
  ): Promise<readonly [family: FamilySync, report: SyncReport]> {
    const { clock, isDryRun } = this.#context;
    const { family, reconciler } = one;
    const beganMs = clock.monotonicMs();
    try {
      await goal.findOwners?.(family);
    } catch (error) {
      const failure: Failure = { kind: "observe", subject: "rules", error: error as Error };
      const elapsedMs = clock.monotonicMs() - beganMs;
      const counts = { writtenRules: new Map(), totalRules: new Map() };
      return [
        { family, isFull: false, hasWorked: false, elapsedMs, ...counts },
        { ...emptyReport, failures: [ofFamily(failure, family)] },
      ];
    }
    // Reread the rules before a rejected change is retried.
    if ((reconciler.nextRetryMs ?? Number.POSITIVE_INFINITY) <= beganMs) reconciler.invalidate();
    const isFull = isDryRun || reconciler.needsObservation;
    if (isFull) goal.desired.rebuild(family);
    const planned = await inSlices(clock, goal.ruleSetInSteps(family), "large");
    one.before = await this.#readGeneration(family);
    const isOurs = isFull || one.before === one.generation;
    const touched = isPlannedAgain(one.pending, planned) ? [family] : [];
    const report = await reconciler.sync({
      ...emptyGoal,
      touched: { ...noMarks(), rules: new Set(touched) },
      rules: new Map([[family, planned]]),
    });
    one.pending = this.#pendingChains(report);
    const hasWorked = report.failures.length === 0;
    // If nothing was written or read, the current generation may include a third party's change.
    if (hasWorked && (isFull || report.changes.size > 0)) {
      const hasWritten = one.before !== undefined && report.changes.size > 0;
      const after = hasWritten ? await this.#readGeneration(family) : one.before;
      one.generation = isOurs ? after : undefined;
    }
    if (hasWorked && isFull) one.readAtMs = clock.monotonicMs();
    return [
      {
        ...{ family, isFull, hasWorked },
        elapsedMs: clock.monotonicMs() - beganMs,
        writtenRules: hasWorked ? rulesIn(report) : new Map(),
        totalRules: reconciler.ruleTotals(family),
      },
      { ...report, failures: report.failures.map((failure) => ofFamily(failure, family)) },
    ];
  }

  /** Chains that were rejected in this sync or earlier, except the chains to which several Services contribute. */
  #pendingChains({ rejected, plan }: SyncReport): Family["pending"] {
    const changes = [...rejected, ...plan.deferred].map(({ change }) => change);
    const keyed = changes.flatMap((change): (readonly [ChainKey, Chain | undefined])[] => {
      if (change.kind === "chain-remove") {
        return [[chainKey(change.table, change.chainName), undefined]];
      }
      return change.kind === "chain-write" && !this.#sharedKeys.has(keyOf(change.chain))
        ? [[keyOf(change.chain), change.chain]]
        : [];
    });
    return new Map(keyed);
  }
}

/** Whether planning has changed a pending chain. The kernel may accept the chain now. */
function isPlannedAgain(pending: Family["pending"], { chains }: RuleSet): boolean {
  return (
    pending.size > 0 &&
    chains.some((chain) => pending.has(keyOf(chain)) && pending.get(keyOf(chain)) !== chain)
  );
}

function keyOf({ table, name }: Chain): ChainKey {
  return chainKey(table, name);
}

function ofFamily(failure: Failure, family: IpFamily): Failure {
  return failure.kind === "observe" ? { ...failure, subject: `${family} iptables` } : failure;
}

function merged(one: SyncReport, other: SyncReport): SyncReport {
  const changes = new Map(one.changes);
  for (const [kind, count] of other.changes) changes.set(kind, (changes.get(kind) ?? 0) + count);
  return {
    ...one,
    changes,
    plan: { ...one.plan, changes: [...one.plan.changes, ...other.plan.changes] },
    rejected: [...one.rejected, ...other.rejected],
    failedRestores: [...one.failedRestores, ...other.failedRestores],
    failures: [...one.failures, ...other.failures],
    rejections: [...one.rejections, ...other.rejections],
    conntrackPasses: [...one.conntrackPasses, ...other.conntrackPasses],
  };
}

/** Number of rules in the chains that were written, by table. */
function rulesIn({ plan, rejected }: SyncReport): ReadonlyMap<TableName, number> {
  const notWritten = new Set<Change>(rejected.map(({ change }) => change));
  const counts = new Map<TableName, number>();
  for (const change of plan.changes) {
    if (change.kind !== "chain-write" || notWritten.has(change)) continue;
    const { table, rules } = change.chain;
    counts.set(table, (counts.get(table) ?? 0) + rules.length);
  }
  return counts;
}
