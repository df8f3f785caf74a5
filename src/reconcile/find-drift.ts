/**
 * What a third party changed: where the kernel was observed to differ from the cache, and a sync has to change it back.
 * That leaves out by itself what leads to where we want to go: a write of ours whose reply was lost, a drain, foreign
 * virtual servers. Pure.
 */
import type { Change } from "./change.ts";
import type { Drift } from "./drift.ts";
import { kindOf, subjectOf } from "./kinds/kinds.ts";
import type { Differences } from "./observed/difference.ts";
import { subjectKey } from "./subject.ts";

/** `planned`: all changes, those that are pending included. `isOwned`: changes of a third party's virtual servers are no drift. */
export function findDrift(
  planned: Iterable<Change>,
  differences: Differences,
  isOwned: (virtualServerKey: string) => boolean,
): readonly Drift[] {
  if (differences.isEmpty) return [];
  const bySubject = new Map<string, readonly Drift[]>();
  for (const change of planned) {
    if ("key" in change && !isOwned(change.key)) continue;
    const found = kindOf(change).drift?.(change, differences) ?? [];
    if (found.length === 0) continue;
    const subject = subjectOf(change);
    bySubject.set(
      subjectKey(subject),
      found.map((texts) => ({ ...texts, subject })),
    );
  }
  return [...bySubject.values()].flat();
}
