/** Whether the kernel is as it is known: reads what a full observation reads, and keeps nothing of it. */
import { ipFamilies } from "../base/ip.ts";
import type { ExpectedServers, Kernel } from "../kernel/kernel.ts";
import { capacityFor, setsFor } from "../plan/sets.ts";
import type { IpSet } from "../state/ip-set.ts";
import { sameRealServers } from "../state/real-server.ts";
import type { SetEntry } from "../state/set-entry.ts";
import { sameVirtualServer, virtualServerKey } from "../state/virtual-server.ts";
import type { KnownState } from "./known-state.ts";
import { lostSets } from "./lost-state.ts";

/** Sets with their entries, virtual servers with their real servers, sysctls. Rejects where one cannot be read. */
export async function isAsKnown(kernel: Kernel, known: KnownState): Promise<boolean> {
  return (
    areSysctlsAsKnown(kernel, known) &&
    (await areSetsAsKnown(kernel, known)) &&
    (await kernel.ipvs.confirm(expectedServers(known)))
  );
}

function areSysctlsAsKnown({ sysctl }: Kernel, known: KnownState): boolean {
  return [...known.sysctls].every(([path, value]) => sysctl.read(path) === value);
}

async function areSetsAsKnown({ ipSets }: Kernel, known: KnownState): Promise<boolean> {
  if (lostSets(await ipSets.listSets(), known).length > 0) return false;
  for (const set of ipFamilies.flatMap(setsFor)) {
    const entries = known.setEntries.get(set.name);
    if (entries !== undefined && canShrink(set, entries.size, known)) return false;
    if (entries === undefined || (entries.size === 0 && set.type !== "bitmap:port")) continue;
    const expected = {
      count: entries.size,
      hasEntry: (entry: SetEntry): boolean => entries.has(entry),
    };
    if (!(await ipSets.confirmEntries(set, expected))) return false;
  }
  return true;
}

/** Sets shrink where everything is compared, and nowhere else. */
function canShrink({ name, type }: IpSet, count: number, { sets }: KnownState): boolean {
  const capacity = sets.get(name)?.maxElements ?? 0;
  return type !== "bitmap:port" && capacity > capacityFor(count);
}

function expectedServers({ virtualServers }: KnownState): ExpectedServers {
  return {
    count: virtualServers.size,
    *ids() {
      for (const { virtualServer } of virtualServers.values()) yield virtualServer;
    },
    hasVirtualServer(found) {
      const known = virtualServers.get(virtualServerKey(found));
      return known !== undefined && sameVirtualServer(known.virtualServer, found);
    },
    hasRealServers(key, found) {
      const known = virtualServers.get(key);
      return known !== undefined && sameRealServers(known.realServers, found);
    },
  };
}
