import type { HistoryEntry } from "../../answer/rows.ts";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { FoundDrift, SyncReport } from "../../reconcile/report.ts";
import type { ManualWeight } from "../../reconcile/status/manual-weights.ts";
import type { Rejection } from "../../reconcile/status/rejection.ts";
import type { ReconcileConflict } from "../../reconcile/status/repairs.ts";
import { subjectKey, subjectText } from "../../reconcile/subject.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
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

type Event = Omit<HistoryEntry, "time">;

/** Drift, or the beginning or end of a rejection. */
export interface PastEvent extends Event {
  /** Monotonic time. */
  readonly atMs: number;
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
}

/** Maximum number of remembered events. */
const maxEvents = 500;

/**
 * Maximum number of remembered virtual servers. There is a limit because each one is reread when the status is
 * requested.
 */
const maxUnrepaired = 100;

/** The number of endpoints that have answered with their weights, of those that have not, and of ejected endpoints. */
export interface WeightSignals {
  readonly answered: number;
  readonly unanswered: number;
  readonly ejected: number;
}

/** The results of the last syncs, for later queries. Keeps only a few references into sync reports. */
export class SyncHistory {
  readonly #clock: Pick<Clock, "monotonicMs" | "nowMs">;
  lastFull: PastSync | undefined;
  lastPartial: PastSync | undefined;
  failing: FailingSyncs | undefined;
  #rejections: readonly Rejection[] = [];
  /** Repairs that a third party keeps reverting. */
  reverted: readonly ReconcileConflict[] = [];
  /** Weights that a third party set and that kube-ipvs keeps. */
  manualWeights: readonly ManualWeight[] = [];
  /** Keys of foreign virtual servers. */
  foreignServers: readonly ServerKey[] = [];
  possiblyOwned: readonly ServerKey[] = [];
  /** Keys of foreign virtual servers that Services claim. */
  claimedForeignServers: readonly ServerKey[] = [];
  conflicts: readonly Lasting<Conflict>[] = [];
  weightSignals: WeightSignals = { answered: 0, unanswered: 0, ejected: 0 };
  ignoredAnnotations: readonly Lasting<IgnoredAnnotation>[] = [];
  /** Number of drifts since startup. */
  driftCount = 0;
  lastDrift: PastEvent | undefined;
  /** The last events, from oldest to newest. */
  readonly events: PastEvent[] = [];
  /** The program that changed our nf_tables tables, according to the last check that found drift. */
  tablesChangedBy: string | undefined;
  /**
   * Virtual servers whose real servers differed from the cache when a command read them, and which have not been
   * repaired since. The value is the monotonic time of the read.
   */
  readonly #unrepaired = new Map<ServerKey, number>();

  constructor(clock: Pick<Clock, "monotonicMs" | "nowMs">) {
    this.#clock = clock;
  }

  noteSync(
    report: SyncReport,
    sync: { readonly isFull: boolean; readonly elapsedMs: number },
  ): void {
    this.#noteDrifts(report);
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

  get rejections(): readonly Rejection[] {
    return this.#rejections;
  }

  /** Replaces the current rejections, and records as events which of them began and ended. */
  set rejections(present: readonly Rejection[]) {
    const before = this.#rejections;
    this.#rejections = present;
    if (before.length === 0 && present.length === 0) return;
    this.#record([
      ...beyond(present, before).map((one) => rejectionEvent("rejected", one)),
      ...beyond(before, present).map((one) => rejectionEvent("rejection-ended", one)),
    ]);
  }

  get unrepaired(): ReadonlyMap<ServerKey, number> {
    return this.#unrepaired;
  }

  /** Records whether a command found drift in this virtual server. The next verification will repair it. */
  noteSeen(virtualServerKey: ServerKey, hasDrifted: boolean): void {
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

  #noteDrifts({ drifts }: SyncReport): void {
    for (const { subject } of drifts) {
      if ("virtualServer" in subject) this.#unrepaired.delete(subject.virtualServer);
    }
    if (drifts.length === 0) return;
    this.driftCount += drifts.length;
    this.#record(
      drifts.slice(-maxEvents).map((drift): Event => {
        const changedBy = this.causeOf(drift);
        return {
          ...{ event: "drift", subject: subjectText(drift.subject), detail: drift.action },
          ...(changedBy === undefined ? {} : { changedBy }),
        };
      }),
    );
    this.lastDrift = this.events.at(-1);
  }

  #record(entries: readonly Event[]): void {
    const [atMs, timeMs] = [this.#clock.monotonicMs(), this.#clock.nowMs()];
    this.events.push(...entries.slice(-maxEvents).map((entry) => ({ ...entry, atMs, timeMs })));
    this.events.splice(0, this.events.length - maxEvents);
  }

  /** The program that caused the drift. Undefined if unknown. */
  causeOf({ subject: { type } }: Pick<FoundDrift, "subject">): string | undefined {
    const isInTables = type === "set" || type === "entry" || type === "chain";
    return isInTables ? this.tablesChangedBy : undefined;
  }
}

/** The rejections of subjects that `others` do not contain. */
function beyond(some: readonly Rejection[], others: readonly Rejection[]): readonly Rejection[] {
  const keys = new Set(others.map(({ subject }) => subjectKey(subject)));
  return some.filter(({ subject }) => !keys.has(subjectKey(subject)));
}

function rejectionEvent(
  event: Event["event"],
  { subject, reason, error, services }: Rejection,
): Event {
  const detail = `${reason}: ${error.message}`;
  const names = services.length === 0 ? {} : { services };
  return { event, subject: subjectText(subject), detail, ...names };
}
