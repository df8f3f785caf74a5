/** Compares observed with cached state and records the differences. Does no I/O. */
import { sameRealServers } from "../../state/real-server.ts";
import type { ChainKey } from "../../state/rule.ts";
import {
  type ServerKey,
  sameVirtualServer,
  type VirtualServer,
  virtualServerKey,
} from "../../state/virtual-server.ts";
import type { CachedRules } from "./cached-rules.ts";
import type { CachedState, CachedVirtualServer } from "./cached-state.ts";
import type { Differences } from "./difference.ts";

/** Reports each member that is only in one of the two sets, and whether it is in the cached one. */
export function compareMembers<T>(
  cached: ReadonlySet<T>,
  found: ReadonlySet<T>,
  note: (member: T, wasThere: boolean) => void,
): void {
  for (const member of found) if (!cached.has(member)) note(member, false);
  for (const member of cached) if (!found.has(member)) note(member, true);
}

export function sameRules(one: CachedRules, other: CachedRules): boolean {
  return sameTexts(one.chains, other.chains) && sameTexts(one.jumps, other.jumps);
}

export function compareServer(
  key: ServerKey,
  before: CachedVirtualServer | undefined,
  after: CachedVirtualServer,
  differences: Differences,
): void {
  const isSame =
    before !== undefined &&
    sameVirtualServer(before.virtualServer, after.virtualServer) &&
    sameRealServers(before.realServers, after.realServers);
  if (!isSame) differences.noteServer(key, before, after);
}

/**
 * Removes from the cache the virtual servers that are not in `found`, and updates those that changed. `found` contains
 * all virtual servers in the kernel, without their real servers.
 */
export function compareServers(
  cached: CachedState,
  found: readonly VirtualServer[],
  differences: Differences,
): void {
  const { virtualServers } = cached;
  let presentCount = 0;
  for (const virtualServer of found) {
    const key = virtualServerKey(virtualServer);
    const before = virtualServers.get(key);
    if (before === undefined) continue;
    presentCount += 1;
    if (sameVirtualServer(before.virtualServer, virtualServer)) continue;
    const after = { ...before, virtualServer };
    differences.noteServer(key, before, after);
    virtualServers.set(key, after);
  }
  if (presentCount === virtualServers.size) return;
  const foundKeys = new Set(found.map(virtualServerKey));
  for (const [key, before] of virtualServers) {
    if (foundKeys.has(key)) continue;
    differences.noteServer(key, before, undefined);
    virtualServers.delete(key);
  }
}

type Texts = ReadonlyMap<ChainKey, readonly string[]>;

function sameTexts(one: Texts, other: Texts): boolean {
  const places = new Set([...one.keys(), ...other.keys()]);
  return [...places].every((place) => {
    const [left, right] = [one.get(place), other.get(place)];
    if (left === undefined || right === undefined) return false;
    return left.length === right.length && left.every((text, index) => text === right[index]);
  });
}
