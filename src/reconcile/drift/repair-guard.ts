/**
 * Repairs that a third party reverts again and again: they wait longer and longer, but for those of restrictions. Time comes
 * in as an argument.
 */
import { earliest } from "../../base/earliest.ts";
import { isLimit, isRestriction } from "../limits.ts";
import { type Subject, subjectKey } from "../subject.ts";
import type { Drift, DriftKind } from "./drift.ts";

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

interface Repairs {
  /** Monotonic; those of the last ten minutes. */
  driftsAtMs: number[];
  pauseMs: number;
  suppressedUntilMs: number;
  last: Drift;
  /** A repair is put off, and nothing has come of it yet. */
  isWaiting: boolean;
  /** Monotonic; of a restriction in a reconcile conflict. */
  distrustedUntilMs: number;
}

/**
 * Counts what is repaired and says which repairs wait. Other repairs are not delayed. Sets never
 * wait: rules cannot be written before the sets they name.
 */
export class RepairGuard {
  readonly #repairs = new Map<string, Repairs>();

  /** Counts drifts; each subject once, however much of it changed. */
  note(drifts: readonly Drift[], nowMs: number): void {
    this.#forget(nowMs);
    const bySubject = new Map(drifts.map((drift) => [subjectKey(drift.subject), drift]));
    for (const [key, drift] of bySubject) {
      if (drift.kind !== "set" && !this.isSuppressed(key, nowMs)) this.#noteOne(key, drift, nowMs);
    }
  }

  /** True: nothing was repaired of late. */
  get isEmpty(): boolean {
    return this.#repairs.size === 0;
  }

  /** `key`: of a subject. */
  isSuppressed(key: string, nowMs: number): boolean {
    return (this.#repairs.get(key)?.suppressedUntilMs ?? 0) > nowMs;
  }

  /** Restrictions that third parties removed too often to rely on them: what they protect is withdrawn meanwhile. */
  distrusted(nowMs: number): ReadonlyMap<string, Subject> {
    const found = [...this.#repairs].filter(([, one]) => one.distrustedUntilMs > nowMs);
    return new Map(found.map(([key, { last }]) => [key, last.subject]));
  }

  /** Hands over what waits: planned and put off each time, it is known to be missing. What is due waits no more. */
  takeWaiting(nowMs: number): readonly Subject[] {
    const waiting = [...this.#repairs.values()].filter(({ isWaiting }) => isWaiting);
    for (const repairs of waiting) repairs.isWaiting = repairs.suppressedUntilMs > nowMs;
    for (const repairs of this.#repairs.values()) {
      if (repairs.distrustedUntilMs <= nowMs) repairs.distrustedUntilMs = 0;
    }
    return waiting.map(({ last }) => last.subject);
  }

  /** Monotonic; when the next pause ends. Undefined: none is under way. */
  get nextDueMs(): number | undefined {
    return earliest(
      [...this.#repairs.values()].flatMap(({ isWaiting, suppressedUntilMs, distrustedUntilMs }) => [
        ...(isWaiting ? [suppressedUntilMs] : []),
        ...(distrustedUntilMs > 0 ? [distrustedUntilMs] : []),
      ]),
    );
  }

  get conflicts(): readonly ReconcileConflict[] {
    return [...this.#repairs.values()]
      .filter(({ pauseMs }) => pauseMs > 0)
      .map(({ last: { kind, subject }, driftsAtMs, pauseMs }) => ({
        kind,
        subject,
        pauseMs,
        driftCount: driftsAtMs.length,
      }));
  }

  #noteOne(key: string, drift: Drift, nowMs: number): void {
    const repairs = this.#repairs.get(key) ?? newRepairs(drift);
    this.#repairs.set(key, repairs);
    const sinceLastMs = nowMs - (repairs.driftsAtMs.at(-1) ?? Number.NEGATIVE_INFINITY);
    repairs.last = drift;
    repairs.driftsAtMs.push(nowMs);
    if (isRestriction(drift.subject)) {
      noteRestriction(repairs, sinceLastMs, nowMs);
      return;
    }
    if (repairs.pauseMs === 0 && repairs.driftsAtMs.length < conflictSize) return;
    repairs.pauseMs = Math.min(Math.max(firstPauseMs, 2 * repairs.pauseMs), longestPauseMs);
    repairs.suppressedUntilMs = nowMs + repairs.pauseMs;
    repairs.isWaiting = true;
  }

  /** Forgets what was quiet for long enough, the pause itself not counted. */
  #forget(nowMs: number): void {
    for (const [key, repairs] of this.#repairs) {
      const quietSinceMs = Math.max(repairs.suppressedUntilMs, repairs.driftsAtMs.at(-1) ?? 0);
      if (nowMs - quietSinceMs >= windowMs) this.#repairs.delete(key);
      else repairs.driftsAtMs = repairs.driftsAtMs.filter((atMs) => nowMs - atMs < windowMs);
    }
  }
}

/** The first repair comes at once, the next one not before a second has passed. */
function noteRestriction(repairs: Repairs, sinceLastMs: number, nowMs: number): void {
  if (sinceLastMs < restrictionPauseMs) {
    repairs.suppressedUntilMs = nowMs + restrictionPauseMs - sinceLastMs;
    repairs.isWaiting = true;
  }
  if (repairs.driftsAtMs.length < conflictSize) return;
  repairs.pauseMs = restrictionPauseMs;
  if (isLimit(repairs.last.subject)) repairs.distrustedUntilMs = nowMs + trustAfterMs;
}

function newRepairs(drift: Drift): Repairs {
  return {
    driftsAtMs: [],
    pauseMs: 0,
    suppressedUntilMs: 0,
    last: drift,
    isWaiting: false,
    distrustedUntilMs: 0,
  };
}
