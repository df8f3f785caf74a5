/** Changes that the kernel rejects. Each is retried separately, with increasing delays. Pure. */
import type { ServiceName } from "../../base/service-name.ts";
import type { RefusedChange } from "../apply/outcome.ts";
import { contradictsCache, refusalReason } from "../apply/refusal-reason.ts";
import type { ChangeKind } from "../change.ts";
import { subjectOf } from "../kinds/kinds.ts";
import type { Subject } from "../subject.ts";

const firstPauseMs = 1_000;
const longestPauseMs = 300_000;

/** A rejected change of a resource. */
export interface Rejection {
  readonly subject: Subject;
  readonly kind: ChangeKind;
  /** The errno name or a program's exit code; see `refusal-reason.ts`. */
  readonly reason: string;
  readonly error: Error;
  /** Names of the Services to which the resource belongs. */
  readonly services: readonly ServiceName[];
  /** Time of the first of the consecutive rejections (monotonic). */
  readonly sinceMs: number;
  /** Number of consecutive rejections. */
  readonly attempts: number;
  /** When the change is retried (monotonic). */
  readonly dueMs: number;
  /** Whether the drain check retries the change. */
  readonly isDrainEnd: boolean;
  /** False for a first error that contradicts the cache, because the immediate retry may succeed. */
  readonly isReported: boolean;
}

/** `before` is the previous rejection of the same resource. */
export function nextRejection(
  before: Rejection | undefined,
  { change, error, services }: RefusedChange & Pick<Rejection, "services">,
  nowMs: number,
): Rejection {
  const attempts = (before?.attempts ?? 0) + 1;
  // If the error contradicts the cache, the cache is checked and the change is retried immediately, because the retry
  // may succeed.
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

/** The delay in milliseconds after this number of consecutive rejections. */
export function pauseAfter(attempts: number): number {
  return Math.min(firstPauseMs * 2 ** Math.min(attempts - 1, 20), longestPauseMs);
}
