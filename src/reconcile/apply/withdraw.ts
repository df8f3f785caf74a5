/** Finds existing resources that lost a `lifetime` dependency, and plans their withdrawal. Pure. */

import type { Change } from "../change.ts";
import { ourSets } from "../kinds/sets.ts";
import type { Relations, RelationView } from "../relations.ts";
import { type Subject, type SubjectKey, subjectKey } from "../subject.ts";

/**
 * Plans the withdrawal of all resources that lost a `lifetime` dependency. `suspects` are the dependencies that may be
 * lost. `paced` are those whose repair a third party reverted less than a second ago. Addresses are withdrawn first, then entries, then virtual servers, so that no step admits packets that a
 * previous step has blocked.
 */
export function withdrawals(
  suspects: Iterable<Subject>,
  paced: ReadonlySet<SubjectKey>,
  relations: Relations,
  view: RelationView,
): readonly Change[] {
  const changes: Change[] = [];
  const lost = new Set<SubjectKey>();
  const queue = [...suspects];
  for (const suspect of queue) {
    for (const dependent of relations.dependentsOf(suspect)) {
      const key = subjectKey(dependent);
      if (lost.has(key) || relations.canStay(dependent, { lost, paced })) continue;
      lost.add(key);
      queue.push(dependent);
      changes.push(...withdrawalOf(dependent, view));
    }
  }
  return (["address-remove", "entry-remove", "virtual-server-remove"] as const).flatMap((kind) =>
    changes.filter((change) => change.kind === kind),
  );
}

/** Returns no change if the resource is not desired or does not exist. */
function withdrawalOf(subject: Subject, { cached, desired }: RelationView): readonly Change[] {
  const reason = "withheld";
  switch (subject.type) {
    case "address": {
      const { address } = subject;
      if (!cached.addresses.has(address) || !desired.hasAddress(address)) return [];
      return [{ kind: "address-remove", address, reason }];
    }
    case "entry": {
      const { setName, entry } = subject;
      const set = ourSets.get(setName);
      if (!cached.hasEntry(setName, entry) || !desired.hasEntry(setName, entry)) return [];
      return set === undefined ? [] : [{ kind: "entry-remove", set, entry, reason }];
    }
    case "virtual-server": {
      const { virtualServer: key } = subject;
      const before = cached.virtualServers.get(key)?.virtualServer;
      if (before === undefined || desired.virtualServer(key) === undefined) return [];
      return [{ kind: "virtual-server-remove", key, before, reason }];
    }
    default:
      return [];
  }
}
