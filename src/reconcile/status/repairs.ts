/** Repairs that a third party keeps reverting. They back off, except for repairs of restrictions. */
import type { Drift, DriftKind } from "../drift.ts";
import { isLimit, isRestriction } from "../limits.ts";
import { type Subject, type SubjectKey, subjectKey } from "../subject.ts";
import type { Status, StatusTable } from "./status-table.ts";

/** A subject that drifts this many times within `windowMs` is in a reconcile conflict. */
const conflictSize = 5;
/** Period in which a subject's drifts are counted. A reconcile conflict ends when this period passes without drift. */
const windowMs = 600_000;
/** Maximum number of drifts remembered for a subject. */
const mostDrifts = 100;
/** The first pause. The pause doubles each time the subject drifts again after a repair. */
const firstPauseMs = 30_000;
const longestPauseMs = 600_000;
/**
 * Minimum time between two repairs of a restriction, for which there is no back-off. With nf_tables, repairs of sets
 * and rules do not back off either, because the kernel reports each change immediately and a repair starts no program.
 */
const leastPauseMs = 1_000;
/**
 * In a reconcile conflict, a resource that implements source ranges satisfies no dependency until it has existed
 * without interruption for this long.
 */
const trustAfterMs = 60_000;

/** A subject that a third party keeps changing. */
export interface ReconcileConflict {
  readonly kind: DriftKind;
  readonly subject: Subject;
  /** Number of drifts in the last ten minutes. */
  readonly driftCount: number;
  /** Length of the current pause, or of the last one. */
  readonly pauseMs: number;
  /** When the pause ends or ended (monotonic). */
  readonly pausedUntilMs: number;
}

/** The repairs of the last ten minutes. */
export interface Repairs {
  readonly kind: DriftKind;
  /** Times of the drifts (monotonic). */
  readonly driftsAtMs: readonly number[];
  /** Length of the current pause, or of the last one. Zero if there is no reconcile conflict. */
  readonly pauseMs: number;
  /** When the pause ends or ended (monotonic). */
  readonly pausedUntilMs: number;
  /** When a limit in a reconcile conflict can satisfy dependencies again (monotonic). */
  distrustedUntilMs?: number;
}

/**
 * Records drifts, at most one per subject. Set repairs never back off, because rules cannot be written until the sets
 * to which they refer exist. `isNotified` says whether the kernel reports set and rule changes immediately.
 */
export function noteDrifts(
  table: StatusTable,
  drifts: readonly Drift[],
  nowMs: number,
  isNotified = false,
): void {
  forgetQuiet(table, nowMs);
  const bySubject = new Map(drifts.map((drift) => [subjectKey(drift.subject), drift]));
  for (const drift of bySubject.values()) {
    if (drift.kind !== "set") noteDrift(table.of(drift.subject), drift, nowMs, isNotified);
  }
}

function noteDrift(
  status: Status,
  { kind, subject }: Drift,
  nowMs: number,
  isNotified: boolean,
): void {
  const { driftsAtMs: before, pauseMs, pausedUntilMs } = status.repairs ?? noRepairs;
  if (pausedUntilMs > nowMs) return;
  const driftsAtMs = [...before, nowMs].slice(-mostDrifts);
  const isFrequent = driftsAtMs.length >= conflictSize;
  const isInTables = subject.type === "entry" || subject.type === "chain";
  if (isRestriction(subject) || (isNotified && isInTables)) {
    const windowOfTrustMs = isNotified ? trustAfterMs : windowMs;
    const recent = driftsAtMs.filter((atMs) => nowMs - atMs < windowOfTrustMs);
    const isDistrusted = isLimit(subject) && recent.length >= conflictSize;
    // The first repair is made immediately, even if the kernel rejected a different change of the subject before.
    // Further repairs are made at least a second after the previous drift.
    const until = (before.at(-1) ?? Number.NEGATIVE_INFINITY) + leastPauseMs;
    status.retryAtMs = until > nowMs ? until : undefined;
    status.repairs = {
      ...{ kind, driftsAtMs, pausedUntilMs: until },
      pauseMs: isFrequent ? leastPauseMs : pauseMs,
      ...(isDistrusted ? { distrustedUntilMs: nowMs + trustAfterMs } : {}),
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

/** Forgets the repairs of subjects that have not drifted for ten minutes since their pause ended. */
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

/** Whether the repair of this resource is backing off because a third party keeps reverting it. */
export function isBackingOff(table: StatusTable, subject: Subject, nowMs: number): boolean {
  return (table.find(subject)?.repairs?.pausedUntilMs ?? nowMs) > nowMs;
}

/**
 * Limits that third parties have removed too often to be relied on. The resources that they protect are
 * withdrawn.
 */
export function distrusted(table: StatusTable, nowMs: number): ReadonlyMap<SubjectKey, Subject> {
  const found = [...table.values()].filter(
    ({ repairs }) => (repairs?.distrustedUntilMs ?? nowMs) > nowMs,
  );
  return new Map(found.map(({ subject }) => [subjectKey(subject), subject]));
}

export function reconcileConflicts(table: StatusTable): readonly ReconcileConflict[] {
  return [...table.values()].flatMap(({ subject, repairs }) => {
    if (repairs === undefined || repairs.pauseMs === 0) return [];
    const { kind, pauseMs, pausedUntilMs, driftsAtMs } = repairs;
    return [{ kind, subject, pauseMs, pausedUntilMs, driftCount: driftsAtMs.length }];
  });
}
