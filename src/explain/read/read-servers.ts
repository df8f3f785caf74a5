/** Reads sets and virtual servers from the kernel. */

import type { Destination } from "../../answer/answers.ts";
import { familyOf, type IpFamily } from "../../base/ip.ts";
import type { IpSets, Ipvs } from "../../kernel/kernel.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import { allSetsFor } from "../../plan/sets.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import { type ServerKey, virtualServerKey } from "../../state/virtual-server.ts";
import type { ListedChains, ListedServer, ListedSet } from "../packet/node-state.ts";

/** Returns our sets by name. Skips sets of an unexpected type, whose entries cannot be compared. */
export async function readSets(
  { ipSets }: { readonly ipSets: Pick<IpSets, "listSets" | "listEntries"> },
  family: IpFamily,
): Promise<ReadonlyMap<string, ListedSet>> {
  const present = new Map((await ipSets.listSets()).map((set) => [set.name, set]));
  const listed = new Map<string, ListedSet>();
  for (const set of allSetsFor(family)) {
    if (present.get(set.name)?.type !== set.type) continue;
    listed.set(set.name, { type: set.type, entries: new Set(await ipSets.listEntries(set)) });
  }
  return listed;
}

/** Returns the sets that other software's rules refer to. Skips sets whose entries cannot be compared with a packet. */
export async function readOtherSets(
  { ipSets }: Pick<KernelReaders, "ipSets">,
  family: IpFamily,
  chains: ListedChains,
): Promise<ReadonlyMap<string, ListedSet>> {
  const texts = [...chains.values()].flat().flatMap(({ others = [] }) => others);
  const names = new Set(texts.flatMap((text) => /--match-set (\S+)/.exec(text)?.[1] ?? []));
  const listed = new Map<string, ListedSet>();
  if (names.size === 0) return listed;
  for (const set of await ipSets.listSets().catch(() => [])) {
    if (!names.has(set.name)) continue;
    // Packets of the other family match no entry.
    const isOfFamily = set.family === undefined || set.family === family;
    const entries = await ipSets.listOtherEntries(set).catch(() => undefined);
    if (entries === undefined) continue;
    listed.set(set.name, {
      type: set.type,
      entries: new Set(isOfFamily ? (entries as SetEntry[]) : []),
    });
  }
  return listed;
}

/** Returns the virtual servers at the destinations, and those with firewall marks. */
export async function readServers(
  { ipvs }: { readonly ipvs: Pick<Ipvs, "listVirtualServers" | "listRealServers"> },
  family: IpFamily,
  destinations: readonly Destination[],
): Promise<ReadonlyMap<ServerKey, ListedServer>> {
  const keys = new Set(destinations.map(virtualServerKey));
  const present = (await ipvs.listVirtualServers()).filter(
    (server) =>
      familyOf(server.address) === family &&
      (server.protocol === "FWM" || keys.has(virtualServerKey(server))),
  );
  const lists = await ipvs.listRealServers(present);
  return new Map(
    present.map((virtualServer, index) => [
      virtualServerKey(virtualServer),
      { virtualServer, realServers: lists[index] ?? [] },
    ]),
  );
}
