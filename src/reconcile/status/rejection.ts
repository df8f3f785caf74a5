/** Changes that the kernel rejects: each is retried alone, later and later. Pure. */
import type { ServiceName } from "../../base/service-name.ts";
import type { RefusedChange } from "../apply/outcome.ts";
import { contradictsCache, refusalReason } from "../apply/refusal-reason.ts";
import type { ChangeKind } from "../change.ts";
import { subjectOf } from "../kinds/kinds.ts";
import type { Subject, SubjectType } from "../subject.ts";

const firstPauseMs = 1_000;
const longestPauseMs = 300_000;

/** A change of a resource that the kernel rejects. */
export interface Rejection {
  readonly subject: Subject;
  readonly kind: ChangeKind;
  /** The errno's name, or the exit code of a program; see `refusal-reason.ts`. */
  readonly reason: string;
  readonly error: Error;
  /** Names of the Services it belongs to. */
  readonly services: readonly ServiceName[];
  /** Monotonic; of the first rejection in a row. */
  readonly sinceMs: number;
  /** Rejections in a row. */
  readonly attempts: number;
  /** Monotonic; when it is retried. */
  readonly dueMs: number;
  /** The check of drains retries it. */
  readonly isDrainEnd: boolean;
  /** Not so for a first contradiction of the cache. */
  readonly isReported: boolean;
}

/** `before`: the rejection of the same resource before this one. */
export function nextRejection(
  before: Rejection | undefined,
  { change, error, services }: RefusedChange & Pick<Rejection, "services">,
  nowMs: number,
): Rejection {
  const attempts = (before?.attempts ?? 0) + 1;
  // What contradicts the cache is observed and retried at once: it may be no rejection at all.
  const isFirstContradiction = attempts === 1 && contradictsCache(error);
  return {
    subject: subjectOf(change),
    kind: change.kind,
    reason: refusalReason(error),
    error,
    services,
    sinceMs: before?.sinceMs ?? nowMs,
    attempts,
    dueMs: isFirstContradiction ? nowMs : nowMs + pauseAfter(attempts),
    isDrainEnd: change.reason === "drain-end",
    isReported: before?.isReported === true || !isFirstContradiction,
  };
}

/** Milliseconds after so many rejections in a row. */
export function pauseAfter(attempts: number): number {
  return Math.min(firstPauseMs * 2 ** Math.min(attempts - 1, 20), longestPauseMs);
}

export interface RejectionCount {
  readonly type: SubjectType;
  readonly reason: string;
  readonly count: number;
}

/** Rejected objects by kind and reason. */
export function countRejections(present: readonly Rejection[]): readonly RejectionCount[] {
  const groups = Map.groupBy(present, ({ subject, reason }) => `${subject.type} ${reason}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    return [{ type: first.subject.type, reason: first.reason, count: group.length }];
  });
}
