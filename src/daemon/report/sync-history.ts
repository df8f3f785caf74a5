import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { FoundDrift, SyncReport } from "../../reconcile/report.ts";
import type { ManualWeight } from "../../reconcile/status/manual-weights.ts";
import type { Rejection } from "../../reconcile/status/rejection.ts";
import type { ReconcileConflict } from "../../reconcile/status/repairs.ts";
import { subjectText } from "../../reconcile/subject.ts";
import type { Conflict } from "./conflicts.ts";
import type { Lasting } from "./findings.ts";
import type { IgnoredAnnotation } from "./sync-findings.ts";

/** A successful sync. Times are monotonic. */
export interface PastSync {
  readonly endedAtMs: number;
  readonly elapsedMs: number;
}

/** Consecutive failed syncs. */
export interface FailingSyncs {
  /** Monotonic time of the first of the consecutive failures. */
  readonly sinceMs: number;
  /** The latest failure. */
  readonly message: string;
}

export interface LastDrift {
  readonly subject: string;
  readonly action: FoundDrift["action"];
  /** The program that caused it, such as `nft (PID 4711)`. Undefined if unknown. */
  readonly by: string | undefined;
  /** Monotonic time at which the drift was found. */
  readonly atMs: number;
}

/** Maximum number of remembered virtual servers. Each of them is read again when the status is requested. */
const maxUnrepaired = 100;

/**
 * The results of the last syncs, for later queries. Keeps only a few references into sync reports, so it costs almost
 * nothing.
 */
export class SyncHistory {
  readonly #clock: Pick<Clock, "monotonicMs">;
  lastFull: PastSync | undefined;
  lastPartial: PastSync | undefined;
  failing: FailingSyncs | undefined;
  rejections: readonly Rejection[] = [];
  /** Repairs that a third party keeps reverting. */
  reverted: readonly ReconcileConflict[] = [];
  /** Weights that a third party set and that kube-ipvs keeps. */
  manualWeights: readonly ManualWeight[] = [];
  /** Keys of foreign virtual servers. */
  foreignServers: readonly string[] = [];
  possiblyOwned: readonly string[] = [];
  /** Keys of foreign virtual servers that Services claim. */
  claimedForeignServers: readonly string[] = [];
  conflicts: readonly Lasting<Conflict>[] = [];
  ignoredAnnotations: readonly Lasting<IgnoredAnnotation>[] = [];
  /** Number of drifts since startup. */
  driftCount = 0;
  lastDrift: LastDrift | undefined;
  /** The program that changed our nf_tables tables, according to the last check that found drift. */
  tablesChangedBy: string | undefined;
  /**
   * Virtual servers whose real servers differed from the cache when a command read them, and that are not repaired yet. Values are
   * monotonic times.
   */
  readonly #unrepaired = new Map<string, number>();

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  noteSync(
    report: SyncReport,
    sync: { readonly isFull: boolean; readonly elapsedMs: number },
  ): void {
    const endedAtMs = this.#clock.monotonicMs();
    this.#noteDrifts(report, endedAtMs);
    const [failure] = report.failures;
    if (failure !== undefined) {
      this.noteFailure(`${failure.kind} ${failure.subject}: ${errorText(failure.error)}`);
      return;
    }
    this.noteWorked(sync);
    this.rejections = report.rejections;
    this.manualWeights = report.manualWeights;
    this.reverted = report.reconcileConflicts;
    this.foreignServers = report.foreignServers;
    this.possiblyOwned = report.possiblyOwned;
    this.claimedForeignServers = report.conflicts;
  }

  get unrepaired(): ReadonlyMap<string, number> {
    return this.#unrepaired;
  }

  /** Records whether a command found drift in this virtual server. The next verification repairs it. */
  noteSeen(virtualServerKey: string, hasDrifted: boolean): void {
    if (!hasDrifted) this.#unrepaired.delete(virtualServerKey);
    else if (this.#unrepaired.size < maxUnrepaired && !this.#unrepaired.has(virtualServerKey)) {
      this.#unrepaired.set(virtualServerKey, this.#clock.monotonicMs());
    }
  }

  noteFailure(message: string): void {
    this.failing = { sinceMs: this.failing?.sinceMs ?? this.#clock.monotonicMs(), message };
  }

  noteWorked({
    isFull,
    elapsedMs,
  }: {
    readonly isFull: boolean;
    readonly elapsedMs: number;
  }): void {
    this.failing = undefined;
    const past = { endedAtMs: this.#clock.monotonicMs(), elapsedMs };
    if (isFull) this.lastFull = past;
    else this.lastPartial = past;
  }

  /** The last successful sync, full or partial. */
  get last(): PastSync | undefined {
    const { lastFull: full, lastPartial: partial } = this;
    if (full === undefined || partial === undefined) return full ?? partial;
    return full.endedAtMs > partial.endedAtMs ? full : partial;
  }

  #noteDrifts({ drifts }: SyncReport, atMs: number): void {
    for (const { subject } of drifts) {
      if ("virtualServer" in subject) this.#unrepaired.delete(subject.virtualServer);
    }
    const last = drifts.at(-1);
    if (last === undefined) return;
    this.driftCount += drifts.length;
    const { action, subject } = last;
    this.lastDrift = { subject: subjectText(subject), action, by: this.causeOf(last), atMs };
  }

  /** The program that caused the drift. Undefined if unknown. */
  causeOf({ subject: { type } }: Pick<FoundDrift, "subject">): string | undefined {
    const isInTables = type === "set" || type === "entry" || type === "chain";
    return isInTables ? this.tablesChangedBy : undefined;
  }
}
