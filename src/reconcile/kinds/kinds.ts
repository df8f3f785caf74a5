/** The registry of kinds. All code that depends on a change's kind uses it. */
import type { ServerKey } from "../../state/virtual-server.ts";
import type { Change, ChangeKind, RealServerChange } from "../change.ts";
import type { Subject } from "../subject.ts";
import { entryKinds } from "./entries.ts";
import type { FoldContext, Kind, Kinds } from "./kind.ts";
import { linkKinds } from "./link.ts";
import { ruleKinds } from "./rules.ts";
import { foldRealServers, serverKinds } from "./servers.ts";
import { setKinds } from "./sets.ts";
import { settingKinds } from "./settings.ts";
import { flowKinds } from "./stale-flows.ts";

const kinds: Kinds<ChangeKind> = {
  ...settingKinds,
  ...linkKinds,
  ...setKinds,
  ...entryKinds,
  ...ruleKinds,
  ...serverKinds,
  ...flowKinds,
};

/** Contains the only cast, which is safe because each kind is registered for the changes that it handles. */
export function kindOf({ kind }: Pick<Change, "kind">): Kind<Change> {
  return kinds[kind] as unknown as Kind<Change>;
}

export function subjectOf(change: Change): Subject {
  return kindOf(change).subject(change);
}

/** Applies successful changes to the cache, in order. Does no I/O. */
export function foldDone(done: readonly Change[], context: FoldContext): void {
  for (let first = 0; first < done.length; ) {
    const change = done[first] as Change;
    let end = first + 1;
    if (isRealServerChange(change)) {
      while (end < done.length && isOfServer(done[end] as Change, change.key)) end += 1;
      foldRealServers(change.key, done.slice(first, end) as RealServerChange[], context);
    } else kindOf(change).fold?.(change, context);
    first = end;
  }
}

function isOfServer(change: Change, key: ServerKey): boolean {
  return isRealServerChange(change) && change.key === key;
}

function isRealServerChange(change: Change): change is Change & RealServerChange {
  return change.kind.startsWith("real-server-");
}
