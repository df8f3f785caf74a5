/** Reads the state that affects packets of each family, both planned and observed. */

import type { Destination, PlanFacts } from "../../answer/answers.ts";
import { familyOf, type IpAddress, type IpFamily, isLoopback } from "../../base/ip.ts";
import { renderRule } from "../../kernel/iptables/render.ts";
import type { Iptables, NodeAddress } from "../../kernel/kernel.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import type { NftRuleset } from "../../state/nft-rule.ts";
import { tunnelLinks } from "../../state/tunnel-link.ts";
import { withSockets } from "../differences.ts";
import { type From, outside } from "../origins.ts";
import type { NodeState, Tables } from "../packet/node-state.ts";
import { plannedTables } from "../planned-tables.ts";
import { readChains } from "./read-chains.ts";
import { readNetwork } from "./read-network.ts";
import { readOtherSets, readServers, readSets } from "./read-servers.ts";

/** The kernel readers that are used here. */
export type ExplainReaders = Pick<
  KernelReaders,
  "ipSets" | "links" | "routes" | "conntrack" | "openRules" | "sockets" | "recentLists" | "nftRules"
> & {
  readonly ipvs: Pick<KernelReaders["ipvs"], "listVirtualServers" | "listRealServers">;
  readonly link: Pick<KernelReaders["link"], "find" | "listAddresses">;
  readonly sysctl: Pick<KernelReaders["sysctl"], "read">;
  readonly nftSets?: KernelReaders["nftSets"];
};

/** The state that affects packets of one family. */
export interface FamilyState {
  readonly planned: NodeState;
  readonly observed: NodeState;
}

/** Returns the state of each family that has destinations. */
export async function readFamilies(
  readers: ExplainReaders,
  facts: PlanFacts,
  from: From | undefined,
  inLink?: string,
): Promise<ReadonlyMap<IpFamily, FamilyState>> {
  const { iptablesBackend: backend } = facts;
  const rules = backend === undefined ? undefined : await readers.openRules(backend);
  const nft = await readers.nftRules.read(backend !== "nft");
  const bridgesOfPorts = await readBridgesOfPorts(readers, nft);
  const dummy = await readers.link.find();
  const all = await readers.link.listAddresses();
  const client = from === "node" ? undefined : from;
  const states = new Map<IpFamily, FamilyState>();
  for (const family of facts.families) {
    const destinations = [...facts.destinations, ...facts.forwards.map(({ to }) => to)].filter(
      ({ address }) => familyOf(address) === family,
    );
    if (destinations.length === 0) continue;
    const isBound = ({ linkIndex }: NodeAddress): boolean => linkIndex === dummy?.index;
    const bound = new Set(all.filter(isBound).map(({ address }) => address));
    const addresses = all.filter((one) => !isBound(one));
    const own = new Set(all.map(({ address }) => address));
    const planned = plannedTables(facts, family, (rule) => renderRule(family, rule));
    const tables = await readTables(readers, { facts, family, destinations, rules });
    const observed = { ...tables, bound, nft: nft[family] };
    const peers = peersOf(destinations, facts, [planned, observed], from).filter(
      (address) => !own.has(address),
    );
    const example = outside[family];
    const asked = from === undefined ? [...peers, example] : peers;
    const network = await readNetwork(readers, {
      ...{ family, addresses, peers: asked, client, inLink, bridgesOfPorts },
      stranger: from === "node" || inLink !== undefined ? undefined : (from ?? example),
    });
    const { unrouted } = network;
    const around = {
      // Clients in the node's own networks need no default route.
      network: {
        ...{ ...network, unrouted: new Set([...unrouted].filter((key) => key !== example)) },
        ...(await readDeliveringLink(readers, destinations)),
      },
      serviceSockets: facts.listeners,
      onNode: new Set<string>(),
    };
    states.set(family, {
      planned: { ...planned, ...around },
      observed: { ...observed, ...around },
    });
  }
  return states;
}

async function readDeliveringLink(
  { links, routes }: Pick<ExplainReaders, "links" | "routes">,
  [destination]: readonly Destination[],
): Promise<{ readonly deliveringLink?: string }> {
  if (destination === undefined) return {};
  const { address } = destination;
  const { name } = tunnelLinks[familyOf(address)];
  const link = (await links.listLinks()).find((one) => one.name === name);
  if (link === undefined) return {};
  const route = await routes.find(address, { source: address, linkIndex: link.index });
  return route?.isLocal === true ? { deliveringLink: name } : {};
}

/** The bridge of each bridge port. Empty if no chain belongs to a link. */
async function readBridgesOfPorts(
  { links }: Pick<ExplainReaders, "links">,
  nft: Readonly<Record<IpFamily, NftRuleset>>,
): Promise<ReadonlyMap<string, string>> {
  const chains = Object.values(nft).flatMap(({ baseChains }) => baseChains);
  if (!chains.some(({ devices }) => devices !== undefined)) return new Map();
  const all = await links.listLinks();
  const names = new Map(all.map(({ index, name }) => [index, name]));
  return new Map(
    all.flatMap(({ name, bridgeIndex }) => {
      const bridge = bridgeIndex === undefined ? undefined : names.get(bridgeIndex);
      return bridge === undefined ? [] : [[name, bridge] as const];
    }),
  );
}

interface FamilyQuery {
  readonly facts: PlanFacts;
  readonly family: IpFamily;
  readonly destinations: readonly Destination[];
  /** Undefined if the mode has no rules. */
  readonly rules: Pick<Iptables, "observe"> | undefined;
}

/** Reads our sets and virtual servers only in IPVS mode, because the kernel may not support them in other modes. */
async function readTables(
  readers: ExplainReaders,
  { facts, family, destinations, rules }: FamilyQuery,
): Promise<Omit<Tables, "bound">> {
  const planned = facts.rules[family] ?? { chains: [], jumps: [] };
  const concerned = destinations.flatMap((one) => withSockets(one, facts.listeners));
  const isIpvs = facts.mode === "ipvs";
  const { nftSets = readers.ipSets } = readers;
  const ipSets = facts.iptablesBackend === "nftables" ? nftSets : readers.ipSets;
  const chains =
    rules === undefined
      ? new Map()
      : await readChains(rules, { family, planned, destinations: concerned });
  const otherSets = await readOtherSets(readers, family, chains);
  return {
    chains,
    sets: new Map([...otherSets, ...(isIpvs ? await readSets({ ipSets }, family) : [])]),
    servers: isIpvs ? await readServers(readers, family, destinations) : new Map(),
  };
}

/** Returns the addresses whose routes are read: clients, destinations and endpoints. */
function peersOf(
  destinations: readonly Destination[],
  { listeners }: PlanFacts,
  tables: readonly Tables[],
  from: From | undefined,
): readonly IpAddress[] {
  const servers = tables.flatMap((one) => [...one.servers.values()]);
  const rules = tables.flatMap(({ chains }) => [...chains.values()].flat());
  return [
    ...(from === undefined || from === "node" ? [] : [from]),
    ...destinations.map(({ address }) => address).filter((address) => !isLoopback(address)),
    ...servers.flatMap(({ realServers }) => realServers.map(({ address }) => address)),
    ...rules.flatMap(({ rule }) =>
      rule?.target.kind === "translate" ? [rule.target.address] : [],
    ),
    ...listeners.flatMap(({ backends }) => backends.map(({ address }) => address)),
  ];
}
