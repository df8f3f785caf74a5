/** Takes repairs that wait out of the work of a sync. Pure but for `known`. */
import type { IpvsChange } from "../kernel/kernel.ts";
import type { DirtyKeys } from "../plan/desired-state.ts";
import { dummyLinkName } from "../state/dummy-link.ts";
import { type RealServer, realServerKey } from "../state/real-server.ts";
import type { VirtualServerDiff } from "./diff.ts";
import type { KnownState, KnownVirtualServer } from "./known-state.ts";
import { thingOf } from "./repair-guard.ts";
import type { SyncContext, Work } from "./sync-context.ts";

type IsHeld = (thing: string) => boolean;

/** What planning touched is no repair: it never waits. */
export function exceptTouched(isHeld: IsHeld, touched: DirtyKeys | undefined): IsHeld {
  if (touched === undefined) return isHeld;
  return (thing) => isHeld(thing) && !isTouched(thing, touched);
}

function isTouched(thing: string, touched: DirtyKeys): boolean {
  const space = thing.indexOf(" ");
  const [kind, subject] = [thing.slice(0, space), thing.slice(space + 1)];
  const [first = "", second = ""] = subject.split(" ");
  switch (kind) {
    case "virtual-server":
    case "real-server":
      return touched.virtualServers.has(subject.split(" -> ")[0] ?? "");
    case "entry":
      return has(touched.setEntries.get(first), second);
    case "address":
      return has(touched.addresses, subject);
    case "chain":
      return has(touched.rules, first);
    default:
      return false;
  }
}

function has(words: ReadonlySet<string> | undefined, word: string): boolean {
  return words?.has(word) ?? false;
}

/** The work without what waits. */
export function withoutHeld(work: Work, isHeld: IsHeld): Work {
  return {
    ...work,
    servers: work.servers.flatMap((diff) => withoutHeldParts(diff, isHeld)),
    ...entries(work, isHeld),
    ...addresses(work, isHeld),
    sysctls: work.sysctls.filter(({ path }) => !isHeld(thingOf({ kind: "sysctl", subject: path }))),
  };
}

function entries(work: Work, isHeld: IsHeld): Pick<Work, "addedEntries" | "removedEntries"> {
  const goes = ({ set, entry }: Work["addedEntries"][number]): boolean =>
    !isHeld(thingOf({ kind: "entry", subject: `${set.name} ${entry}` }));
  return {
    addedEntries: work.addedEntries.filter(goes),
    removedEntries: work.removedEntries.filter(goes),
  };
}

function addresses(work: Work, isHeld: IsHeld): Pick<Work, "addedAddresses" | "removedAddresses"> {
  const isLinkHeld = isHeld(thingOf({ kind: "link", subject: dummyLinkName }));
  const goes = ({ address }: Work["addedAddresses"][number]): boolean =>
    !isLinkHeld && !isHeld(thingOf({ kind: "address", subject: address }));
  return {
    addedAddresses: work.addedAddresses.filter(goes),
    removedAddresses: work.removedAddresses.filter(goes),
  };
}

function withoutHeldParts(diff: VirtualServerDiff, isHeld: IsHeld): readonly VirtualServerDiff[] {
  if (isHeld(thingOf({ kind: "virtual-server", subject: diff.key }))) return [];
  if (diff.isNew || diff.isUnwanted) return [diff];
  const goes = (server: RealServer): boolean =>
    !isHeld(thingOf({ kind: "real-server", subject: `${diff.key} -> ${realServerKey(server)}` }));
  const changes = diff
    .changes()
    .filter(
      (change: IpvsChange) => !("realServer" in change) || goes(change.realServer as RealServer),
    );
  const unwanted = diff.unwanted.filter(goes);
  return changes.length + unwanted.length === 0
    ? []
    : [{ ...diff, changes: () => changes, unwanted }];
}

/** The virtual servers that a sync is about to write, as they were found: it costs what changes. */
export function serversToWrite({
  known,
  work,
}: Pick<SyncContext, "known" | "work">): ReadonlyMap<string, KnownVirtualServer> {
  const found = new Map<string, KnownVirtualServer>();
  for (const { key } of work.servers) {
    const server = known.virtualServers.get(key);
    if (server !== undefined) found.set(key, server);
  }
  return found;
}

/**
 * The step that writes a virtual server takes all its real servers for written. Puts those that wait back
 * to what was found, so that the next observation does not take them for a new drift.
 */
export function keepHeldServers(
  { virtualServers }: KnownState,
  found: ReadonlyMap<string, KnownVirtualServer>,
  isHeld: IsHeld,
): void {
  for (const [key, before] of found) {
    const server = virtualServers.get(key);
    if (server === undefined || before.realServers === server.realServers) continue;
    const holds = (one: RealServer): boolean =>
      isHeld(thingOf({ kind: "real-server", subject: `${key} -> ${realServerKey(one)}` }));
    const [left, right] = [server.realServers.filter(holds), before.realServers.filter(holds)];
    if (left.length + right.length === 0) continue;
    const others = server.realServers.filter((one) => !holds(one));
    virtualServers.set(key, { ...server, realServers: [...others, ...right] });
  }
}
