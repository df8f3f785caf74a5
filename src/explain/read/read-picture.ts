/** What the kernel has of one family, for packets to some destinations. */

import type { Destination } from "../../answer/answers.ts";
import { familyOf, type IpAddress, type IpFamily } from "../../base/ip.ts";
import type { DummyLink, IpSets, Iptables, Ipvs, NodeAddress } from "../../kernel/kernel.ts";
import { setsFor } from "../../plan/sets.ts";
import { chainKey, type RuleSet } from "../../state/rule.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { ListedServer, ListedSet, Picture } from "../packet/picture.ts";
import { listedRule } from "./read-chains.ts";

/** Addresses on kube-ipvs0, and the node's others. */
export interface ReadAddresses {
  readonly bound: ReadonlySet<IpAddress>;
  readonly others: ReadonlySet<IpAddress>;
}

export interface PictureReaders {
  readonly ipSets: Pick<IpSets, "listSets" | "listEntries">;
  readonly ipvs: Pick<Ipvs, "listVirtualServers" | "listRealServers">;
}

export interface PictureQuery {
  readonly family: IpFamily;
  /** Names the chains to read. */
  readonly planned: RuleSet;
  readonly destinations: readonly Destination[];
  readonly bound: ReadonlySet<IpAddress>;
  readonly rules: Pick<Iptables, "observe">;
}

export async function readPicture(
  readers: PictureReaders,
  { family, planned, destinations, bound, rules }: PictureQuery,
): Promise<Picture> {
  const chains = await rules.observe(family, { planned });
  const keys = new Set(destinations.map(virtualServerKey));
  return {
    chains: new Map(
      chains.map((chain) => [chainKey(chain.table, chain.name), chain.rules.map(listedRule)]),
    ),
    sets: await readSets(readers, family),
    servers: await readServers(readers, family, keys),
    bound,
  };
}

/** Sets by our names; one of another type holds nothing that could be compared. */
async function readSets(
  { ipSets }: Pick<PictureReaders, "ipSets">,
  family: IpFamily,
): Promise<ReadonlyMap<string, ListedSet>> {
  const present = new Map((await ipSets.listSets()).map((set) => [set.name, set]));
  const listed = new Map<string, ListedSet>();
  for (const set of setsFor(family)) {
    if (present.get(set.name)?.type !== set.type) continue;
    listed.set(set.name, { type: set.type, entries: new Set(await ipSets.listEntries(set)) });
  }
  return listed;
}

async function readServers(
  { ipvs }: Pick<PictureReaders, "ipvs">,
  family: IpFamily,
  keys: ReadonlySet<string>,
): Promise<ReadonlyMap<string, ListedServer>> {
  const present = (await ipvs.listVirtualServers()).filter(
    (server) => familyOf(server.address) === family && keys.has(virtualServerKey(server)),
  );
  const lists = await ipvs.listRealServers(present);
  return new Map(
    present.map((virtualServer, index) => [
      virtualServerKey(virtualServer),
      { virtualServer, realServers: lists[index] ?? [] },
    ]),
  );
}

export async function readAddresses({
  link,
}: {
  readonly link: Pick<DummyLink, "find" | "listAddresses">;
}): Promise<ReadAddresses> {
  const dummy = await link.find();
  const all = await link.listAddresses();
  const isBound = ({ linkIndex }: NodeAddress): boolean => linkIndex === dummy?.index;
  return {
    bound: new Set(all.filter(isBound).map(({ address }) => address)),
    others: new Set(all.filter((one) => !isBound(one)).map(({ address }) => address)),
  };
}
