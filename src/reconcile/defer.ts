/** Takes changes out of a plan that have to wait: safety is a filter over the plan. Pure. */
import type { IpAddress } from "../base/ip.ts";
import type { DesiredView } from "../plan/desired-state.ts";
import { NotDone } from "./apply/blocked.ts";
import { isServedBy } from "./apply/unserved.ts";
import type { Change } from "./change.ts";
import type { DeferralReason, DeferredChange } from "./change-plan.ts";
import type { CachedState } from "./observed/cached-state.ts";
import { type Subject, subjectKey, subjectOf } from "./subject.ts";

export interface DeferInput {
  readonly cached: CachedState;
  readonly desired: Pick<DesiredView, "virtualServer" | "serversOfAddress">;
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

/** What depends on a change that waits, waits with it. */
export function deferChanges(planned: readonly Change[], input: DeferInput): Deferral {
  const notDone = new NotDone();
  const deferred: DeferredChange[] = [];
  for (const change of input.impossible) {
    notDone.note(change);
    deferred.push({ change, reason: "refused" });
  }
  if (!input.isAnyWaiting && notDone.isEmpty) return { changes: planned, deferred: [] };
  const changes: Change[] = [];
  const { cached, desired } = input;
  const created = new Set<string>();
  const isMade = (key: string): boolean => cached.virtualServers.has(key) || created.has(key);
  const isServed = (address: IpAddress): boolean => isServedBy(address, desired, isMade);
  for (const change of planned) {
    const reason = deferralReason(change, input, { notDone, isServed });
    if (reason === undefined) {
      changes.push(change);
      if (change.kind === "virtual-server-create") created.add(change.key);
      continue;
    }
    notDone.note(change);
    deferred.push({ change, reason });
  }
  return deferred.length === 0 ? { changes: planned, deferred } : { changes, deferred };
}

interface Waiting {
  readonly notDone: NotDone;
  isServed(address: IpAddress): boolean;
}

function deferralReason(
  change: Change,
  { cached, isTouched, isRefused, isSuppressed }: DeferInput,
  { notDone, isServed }: Waiting,
): DeferralReason | undefined {
  const subject = subjectOf(change);
  if (!isTouched(subject)) {
    const key = subjectKey(subject);
    if (isRefused(key)) return "refused";
    if (isSuppressed(key) || isSuppressed(wholeOf(subject))) return "reverted";
  }
  return notDone.blocks(change, cached, isServed) ? "blocked" : undefined;
}

/** What the subject is part of: it came and went with it. An address waits for its link in any case. */
function wholeOf(subject: Subject): string {
  if (subject.type !== "real-server") return "";
  return subjectKey({ type: "virtual-server", virtualServer: subject.virtualServer });
}
