/** Resources that exist although a `lifetime` dependency of theirs is lost, and how they are withdrawn. Pure. */

import type { Change } from "../change.ts";
import { ourSets } from "../kinds/sets.ts";
import type { Relations, RelationView } from "../relations.ts";
import { type Subject, subjectKey } from "../subject.ts";

/**
 * Withdrawals of everything that lost a `lifetime` dependency. `suspects` may be lost. Addresses are withdrawn first, then
 * entries, then virtual servers: no step opens what the one before left closed.
 */
export function withdrawals(
  suspects: Iterable<Subject>,
  relations: Relations,
  view: RelationView,
): readonly Change[] {
  const withdrawn = new Map<string, Subject>();
  const lost = new Set<string>();
  const queue = [...suspects];
  for (const suspect of queue) {
    for (const dependent of relations.dependentsOf(suspect)) {
      const key = subjectKey(dependent);
      if (lost.has(key) || relations.canStay(dependent, lost)) continue;
      lost.add(key);
      queue.push(dependent);
      if (isPresent(dependent, view)) withdrawn.set(key, dependent);
    }
  }
  const changes = [...withdrawn.values()].flatMap((subject) => withdrawalOf(subject, view));
  return (["address-remove", "entry-remove", "virtual-server-remove"] as const).flatMap((kind) =>
    changes.filter((change) => change.kind === kind),
  );
}

/** Desired, and there. */
function isPresent(subject: Subject, { cached, desired }: RelationView): boolean {
  switch (subject.type) {
    case "address":
      return cached.addresses.has(subject.address) && desired.hasAddress(subject.address);
    case "entry":
      return (
        cached.hasEntry(subject.setName, subject.entry) &&
        desired.hasEntry(subject.setName, subject.entry)
      );
    case "virtual-server":
      return (
        cached.virtualServers.has(subject.virtualServer) &&
        desired.virtualServer(subject.virtualServer) !== undefined
      );
    default:
      return false;
  }
}

function withdrawalOf(subject: Subject, { cached }: RelationView): readonly Change[] {
  const reason = "withheld";
  if (subject.type === "address")
    return [{ kind: "address-remove", address: subject.address, reason }];
  if (subject.type === "entry") {
    const set = ourSets.get(subject.setName);
    return set === undefined ? [] : [{ kind: "entry-remove", set, entry: subject.entry, reason }];
  }
  if (subject.type !== "virtual-server") return [];
  const { virtualServer: key } = subject;
  const before = cached.virtualServers.get(key)?.virtualServer;
  return before === undefined ? [] : [{ kind: "virtual-server-remove", key, before, reason }];
}
