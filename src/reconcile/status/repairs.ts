/** Repairs that a third party keeps reverting: they back off, except for those of restrictions. */
import type { Drift, DriftKind } from "../drift.ts";
import { isLimit, isRestriction } from "../limits.ts";
import { type Subject, subjectKey } from "../subject.ts";
import type { Status, StatusTable } from "./status-table.ts";

/** So many drifts of one subject … */
const conflictSize = 5;
/** … in this time are a reconcile conflict; it ends when nothing happened for as long. */
const windowMs = 600_000;
/** The first pause; doubles each time the subject is changed again after a repair. */
const firstPauseMs = 30_000;
const longestPauseMs = 600_000;
/** Restrictions are always repaired, this often at most. */
const restrictionPauseMs = 1_000;
/** What implements source ranges, in a reconcile conflict, satisfies no dependency until it has lasted so long. */
const trustAfterMs = 60_000;

/** A subject that a third party changes again and again. */
export interface ReconcileConflict {
  readonly kind: DriftKind;
  readonly subject: Subject;
  /** Drifts within ten minutes when it began. */
  readonly driftCount: number;
  /** The present pause, or the last one. */
  readonly pauseMs: number;
}

/** What was repaired in the last ten minutes. */
export interface Repairs {
  readonly kind: DriftKind;
  /** Monotonic. */
  readonly driftsAtMs: readonly number[];
  /** Zero if it is not a reconcile conflict. */
  readonly pauseMs: number;
  /** Monotonic; when the pause ends or ended. */
  readonly pausedUntilMs: number;
  /** Monotonic; of a limit in a reconcile conflict. */
  distrustedUntilMs?: number;
}

/**
 * Counts drifts, each subject once, however much of it changed. Repairs of sets never back off: rules cannot be written before
 * the sets they name.
 */
export function noteDrifts(table: StatusTable, drifts: readonly Drift[], nowMs: number): void {
  forgetQuiet(table, nowMs);
  const bySubject = new Map(drifts.map((drift) => [subjectKey(drift.subject), drift]));
  for (const drift of bySubject.values()) {
    if (drift.kind !== "set") noteDrift(table.of(drift.subject), drift, nowMs);
  }
}

function noteDrift(status: Status, { kind, subject }: Drift, nowMs: number): void {
  const { driftsAtMs: before, pauseMs, pausedUntilMs } = status.repairs ?? noRepairs;
  if (pausedUntilMs > nowMs) return;
  const driftsAtMs = [...before, nowMs];
  const isFrequent = driftsAtMs.length >= conflictSize;
  if (isRestriction(subject)) {
    // The first repair is made at once, although the kernel rejected another change before; the next one after a second.
    const until = (before.at(-1) ?? Number.NEGATIVE_INFINITY) + restrictionPauseMs;
    status.retryAtMs = until > nowMs ? until : undefined;
    status.repairs = {
      ...{ kind, driftsAtMs, pausedUntilMs: until },
      pauseMs: isFrequent ? restrictionPauseMs : pauseMs,
      ...(isFrequent && isLimit(subject) ? { distrustedUntilMs: nowMs + trustAfterMs } : {}),
    };
    return;
  }
  const isConflict = pauseMs > 0 || isFrequent;
  const nextMs = isConflict ? Math.min(Math.max(firstPauseMs, 2 * pauseMs), longestPauseMs) : 0;
  status.repairs = { kind, driftsAtMs, pauseMs: nextMs, pausedUntilMs: nowMs + nextMs };
  if (isConflict) status.retryAtMs = Math.max(status.retryAtMs ?? 0, nowMs + nextMs);
}

const noRepairs: Pick<Repairs, "driftsAtMs" | "pauseMs" | "pausedUntilMs"> = {
  driftsAtMs: [],
  pauseMs: 0,
  pausedUntilMs: 0,
};

/** Forgets what was quiet for long enough, the pause itself not counted. */
function forgetQuiet(table: StatusTable, nowMs: number): void {
  for (const status of table.values()) {
    const { repairs } = status;
    if (repairs === undefined) continue;
    const quietSinceMs = Math.max(repairs.pausedUntilMs, repairs.driftsAtMs.at(-1) ?? 0);
    const driftsAtMs = repairs.driftsAtMs.filter((atMs) => nowMs - atMs < windowMs);
    status.repairs = nowMs - quietSinceMs >= windowMs ? undefined : { ...repairs, driftsAtMs };
  }
  table.removeDone();
}

/** Whether the repair of this resource waits because a third party keeps reverting it. */
export function isBackingOff(table: StatusTable, subject: Subject, nowMs: number): boolean {
  return (table.find(subject)?.repairs?.pausedUntilMs ?? nowMs) > nowMs;
}

/** Limits that third parties removed too often to rely on them: what they protect is withdrawn meanwhile. By key. */
export function distrusted(table: StatusTable, nowMs: number): ReadonlyMap<string, Subject> {
  const found = [...table.values()].filter(
    ({ repairs }) => (repairs?.distrustedUntilMs ?? nowMs) > nowMs,
  );
  return new Map(found.map(({ subject }) => [subjectKey(subject), subject]));
}

export function reconcileConflicts(table: StatusTable): readonly ReconcileConflict[] {
  return [...table.values()].flatMap(({ subject, repairs }) => {
    if (repairs === undefined || repairs.pauseMs === 0) return [];
    const { kind, pauseMs, driftsAtMs } = repairs;
    return [{ kind, subject, pauseMs, driftCount: driftsAtMs.length }];
  });
}
