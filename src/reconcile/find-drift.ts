/**
 * Finds drift: differences between kernel and cache that a sync must repair. Kernel state that already matches the
 * desired state, such as our own write whose reply was lost, is not drift. Neither are drains and foreign virtual
 * servers. Pure.
 */
import type { ServerKey } from "../state/virtual-server.ts";
import type { Change } from "./change.ts";
import type { Drift } from "./drift.ts";
import { kindOf, subjectOf } from "./kinds/kinds.ts";
import type { Differences } from "./observed/difference.ts";
import { type SubjectKey, subjectKey } from "./subject.ts";

/**
 * `planned` contains all changes, including pending ones. Virtual servers for which `isOwned` returns false have no
 * drift.
 */
export function findDrift(
  planned: Iterable<Change>,
  differences: Differences,
  isOwned: (virtualServerKey: ServerKey) => boolean,
): readonly Drift[] {
  if (differences.isEmpty) return [];
  const bySubject = new Map<SubjectKey, readonly Drift[]>();
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
