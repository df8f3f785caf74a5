/** Changes that the kernel refused: each is retried alone, later and later. Time comes in as an argument. */
import { earliest } from "../base/earliest.ts";
import type { ServiceName } from "../base/service-name.ts";
import type { Outcomes, RefusedChange } from "./apply/outcome.ts";
import { contradictsCache, refusalReason } from "./apply/refusal-reason.ts";
import type { Change, ChangeKind } from "./change.ts";
import type { ChangePlan } from "./change-plan.ts";
import { isCompared, type Scope } from "./scope.ts";
import { type Subject, type SubjectType, subjectKey, subjectOf } from "./subject.ts";

const firstPauseMs = 1_000;
const longestPauseMs = 300_000;

/** An object that the kernel refuses. */
export interface Refusal {
  readonly subject: Subject;
  readonly kind: ChangeKind;
  /** The errno's name, or the exit code of a program; see `refusal-reason.ts`. */
  readonly reason: string;
  readonly error: Error;
  /** Names of the Services it belongs to. */
  readonly services: readonly ServiceName[];
  /** Monotonic; of the first refusal in a row. */
  readonly sinceMs: number;
  /** Refusals in a row. */
  readonly attempts: number;
  /** Monotonic; when it is retried. */
  readonly dueMs: number;
}

/** What is refused now, and what is new about it. */
export interface RefusalReport {
  readonly begun: readonly Refusal[];
  readonly ended: readonly Refusal[];
  /** Those that were reported as begun and did not end. */
  readonly present: readonly Refusal[];
}

export const noRefusals: RefusalReport = { begun: [], ended: [], present: [] };

export interface RefusalCount {
  readonly type: SubjectType;
  readonly reason: string;
  readonly count: number;
}

interface Entry extends Refusal {
  readonly isReported: boolean;
}

export class Refusals {
  readonly #entries = new Map<string, Entry>();
  /** What waits for something that was refused. */
  readonly #blocked = new Map<string, Subject>();
  #begun: Refusal[] = [];
  #ended: Refusal[] = [];

  get isEmpty(): boolean {
    return this.#entries.size === 0;
  }

  /** `key`: of a subject. */
  isWaiting(key: string, nowMs: number): boolean {
    return (this.#entries.get(key)?.dueMs ?? 0) > nowMs;
  }

  /** Monotonic; undefined: nothing is refused. */
  get nextDueMs(): number | undefined {
    return earliest([...this.#entries.values()].map(({ dueMs }) => dueMs));
  }

  /**
   * Adds all that is refused to a scope, due or not, and all that waits for it: planned again each time, it is known to be
   * missing, and made as soon as it can be.
   */
  includeIn(scope: Scope): void {
    for (const { subject } of this.#entries.values()) scope.includeSubject(subject);
    for (const subject of this.#blocked.values()) scope.includeSubject(subject);
  }

  /** After a sync. `planned`: all of its changes, those that waited included. */
  note(
    outcomes: Outcomes,
    {
      scope,
      planned,
      plan,
    }: {
      readonly scope: Scope;
      readonly planned: readonly Change[];
      readonly plan: ChangePlan;
    },
    nowMs: number,
  ): void {
    this.#noteBlocked(outcomes, scope);
    if (this.#entries.size === 0 && outcomes.refused.length === 0) return;
    const refusedKeys = this.refuse(outcomes.refused, plan, nowMs);
    const waiting = [...plan.deferred.map(({ change }) => change), ...outcomes.blocked];
    const waitingKeys = new Set(waiting.map((change) => subjectKey(subjectOf(change))));
    const plannedKeys = new Set(planned.map((change) => subjectKey(subjectOf(change))));
    const isUnknown = outcomes.unknown.length > 0;
    for (const [key, entry] of this.#entries) {
      if (refusedKeys.has(key)) continue;
      const isResolved = plannedKeys.has(key) || isCompared(entry.subject, scope);
      if (waitingKeys.has(key) || isUnknown) this.#postpone(key, entry, nowMs);
      else if (isResolved) this.#end(key, entry);
    }
  }

  /** Each of these waits from now on. Returns the keys of their subjects. */
  refuse(
    refused: readonly RefusedChange[],
    { servicesOf }: Pick<ChangePlan, "servicesOf">,
    nowMs: number,
  ): ReadonlySet<string> {
    const keys = new Set<string>();
    for (const { change, error } of refused) {
      const subject = subjectOf(change);
      const key = subjectKey(subject);
      if (keys.has(key)) continue;
      keys.add(key);
      this.#refuse(key, { subject, kind: change.kind, error }, servicesOf(change), nowMs);
    }
    return keys;
  }

  /** Those of which this is true are retried with the next occasion. */
  hasten(isChanged: (subject: Subject) => boolean, nowMs: number): void {
    for (const [key, entry] of this.#entries) {
      if (isChanged(entry.subject)) this.#entries.set(key, { ...entry, dueMs: nowMs });
    }
  }

  /** Those of which this is true are done, or not wanted any more. */
  endWhere(isOver: (subject: Subject) => boolean): void {
    for (const [key, entry] of this.#entries) {
      if (isOver(entry.subject)) this.#end(key, entry);
    }
  }

  /** It was not tried, since it waits for something else. */
  #postpone(key: string, entry: Entry, nowMs: number): void {
    if (entry.dueMs > nowMs) return;
    this.#entries.set(key, { ...entry, dueMs: nowMs + pauseAfter(entry.attempts) });
  }

  /** Hands over what began and ended since it was asked last. */
  takeReport(): RefusalReport {
    const report = {
      begun: this.#begun,
      ended: this.#ended,
      present: [...this.#entries.values()].filter(({ isReported }) => isReported),
    };
    this.#begun = [];
    this.#ended = [];
    return report;
  }

  #refuse(
    key: string,
    refused: Pick<Refusal, "subject" | "kind" | "error">,
    services: readonly ServiceName[],
    nowMs: number,
  ): void {
    const before = this.#entries.get(key);
    const attempts = (before?.attempts ?? 0) + 1;
    const reason = refusalReason(refused.error);
    // What contradicts the cache is observed and retried at once: it may be no refusal at all.
    const isFirstContradiction = attempts === 1 && contradictsCache(refused.error);
    const dueMs = isFirstContradiction ? nowMs : nowMs + pauseAfter(attempts);
    const isReported = before?.isReported === true || !isFirstContradiction;
    const sinceMs = before?.sinceMs ?? nowMs;
    const entry = { ...refused, reason, services, sinceMs, attempts, dueMs, isReported };
    this.#entries.set(key, entry);
    if (isReported && before?.isReported !== true) this.#begun.push(entry);
  }

  #noteBlocked({ blocked, withdrawn }: Outcomes, scope: Scope): void {
    for (const [key, subject] of this.#blocked) {
      if (isCompared(subject, scope)) this.#blocked.delete(key);
    }
    for (const change of [...blocked, ...withdrawn]) {
      const subject = subjectOf(change);
      this.#blocked.set(subjectKey(subject), subject);
    }
  }

  #end(key: string, entry: Entry): void {
    this.#entries.delete(key);
    if (entry.isReported) this.#ended.push(entry);
  }
}

/** Milliseconds after so many refusals in a row. */
function pauseAfter(attempts: number): number {
  return Math.min(firstPauseMs * 2 ** Math.min(attempts - 1, 20), longestPauseMs);
}

/** The results of two of them, as one. */
export function joinReports(one: RefusalReport, other: RefusalReport): RefusalReport {
  return {
    begun: [...one.begun, ...other.begun],
    ended: [...one.ended, ...other.ended],
    present: [...one.present, ...other.present],
  };
}

/** Presently refused objects, by kind and reason. */
export function countRefusals(present: readonly Refusal[]): readonly RefusalCount[] {
  const groups = Map.groupBy(present, ({ subject, reason }) => `${subject.type} ${reason}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    return [{ type: first.subject.type, reason: first.reason, count: group.length }];
  });
}
