/** Compares what was observed with what is cached, and notes the differences. Does no I/O. */
import type { IpAddress } from "../../base/ip.ts";
import { sameRealServers } from "../../state/real-server.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import {
  sameVirtualServer,
  type VirtualServer,
  virtualServerKey,
} from "../../state/virtual-server.ts";
import type { CachedRules, CachedState, CachedVirtualServer } from "./cached-state.ts";
import type { Differences } from "./difference.ts";

export function compareAddresses(
  cached: ReadonlySet<IpAddress>,
  found: ReadonlySet<IpAddress>,
  differences: Differences,
): void {
  for (const address of found) if (!cached.has(address)) differences.addresses.set(address, false);
  for (const address of cached) if (!found.has(address)) differences.addresses.set(address, true);
}

export function compareEntries(
  setName: string,
  cached: ReadonlySet<SetEntry>,
  found: ReadonlySet<SetEntry>,
  differences: Differences,
): void {
  for (const entry of found) if (!cached.has(entry)) differences.noteEntry(setName, entry, false);
  for (const entry of cached) if (!found.has(entry)) differences.noteEntry(setName, entry, true);
}

export function sameRules(one: CachedRules, other: CachedRules): boolean {
  return sameTexts(one.chains, other.chains) && sameTexts(one.jumps, other.jumps);
}

export function compareServer(
  key: string,
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

/** `found`: all virtual servers, without their real servers. Those that are gone leave the cache, changed ones are updated. */
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

type Texts = ReadonlyMap<string, readonly string[]>;

function sameTexts(one: Texts, other: Texts): boolean {
  const places = new Set([...one.keys(), ...other.keys()]);
  return [...places].every((place) => {
    const [left, right] = [one.get(place), other.get(place)];
    if (left === undefined || right === undefined) return false;
    return left.length === right.length && left.every((text, index) => text === right[index]);
  });
}
