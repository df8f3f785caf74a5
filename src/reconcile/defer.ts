/** Takes changes out of a plan that wait for their time. What depends on them is found when it is to be sent. Pure. */
import type { Change } from "./change.ts";
import type { DeferralReason, DeferredChange } from "./change-plan.ts";
import { type Subject, subjectKey, subjectOf } from "./subject.ts";

export interface DeferInput {
  /** Planning touched it since the sync before: a change of it is no repair and no retry, and waits for nothing. */
  isTouched(subject: Subject): boolean;
  /** False: nothing is refused or suppressed, so nobody needs to be asked. */
  readonly isAnyWaiting: boolean;
  /** Keys of subjects. */
  isRefused(key: string): boolean;
  isSuppressed(key: string): boolean;
  /** Refused without asking the kernel, whatever else. */
  readonly impossible: readonly Change[];
}

export interface Deferral {
  readonly changes: readonly Change[];
  readonly deferred: readonly DeferredChange[];
}

export function deferChanges(planned: readonly Change[], input: DeferInput): Deferral {
  const deferred = input.impossible.map(
    (change): DeferredChange => ({ change, reason: "refused" }),
  );
  if (!input.isAnyWaiting) return { changes: planned, deferred };
  const changes: Change[] = [];
  for (const change of planned) {
    const reason = deferralReason(subjectOf(change), input);
    if (reason === undefined) changes.push(change);
    else deferred.push({ change, reason });
  }
  return { changes, deferred };
}

function deferralReason(
  subject: Subject,
  { isTouched, isRefused, isSuppressed }: DeferInput,
): DeferralReason | undefined {
  if (isTouched(subject)) return undefined;
  const key = subjectKey(subject);
  if (isRefused(key)) return "refused";
  return isSuppressed(key) || isSuppressed(wholeOf(subject)) ? "reverted" : undefined;
}

/** What the subject is part of: it came and went with it. An address waits for its link in any case. */
function wholeOf(subject: Subject): string {
  if (subject.type !== "real-server") return "";
  return subjectKey({ type: "virtual-server", virtualServer: subject.virtualServer });
}
