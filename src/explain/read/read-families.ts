/** What packets of each family meet: as it is planned, and as the kernel has it. */

import type { Destination, PlanFacts } from "../../answer/answers.ts";
import { familyOf, type IpAddress, type IpFamily, isLoopback } from "../../base/ip.ts";
import { renderRule } from "../../kernel/iptables/render.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import type { RuleSet } from "../../state/rule.ts";
import { withListeners } from "../modes/userspace.ts";
import type { From } from "../origins.ts";
import type { NodeNetwork, Picture } from "../packet/picture.ts";
import { plannedChains, plannedPicture } from "../planned-picture.ts";
import { readChains } from "./read-chains.ts";
import { readNetwork } from "./read-network.ts";
import { type ReadAddresses, readAddresses, readPicture } from "./read-picture.ts";

/** What is read of the kernel. */
export type ExplainReaders = Pick<
  KernelReaders,
  "ipSets" | "routes" | "conntrack" | "openRules" | "sockets" | "recentLists"
> & {
  readonly ipvs: Pick<KernelReaders["ipvs"], "listVirtualServers" | "listRealServers">;
  readonly link: Pick<KernelReaders["link"], "find" | "listAddresses">;
  readonly sysctl: Pick<KernelReaders["sysctl"], "read">;
};

/** What one family's packets meet. */
export interface FamilyState {
  readonly planned: Picture;
  readonly observed: Picture;
  readonly network: NodeNetwork;
}

/** Families of the destinations. */
export async function readFamilies(
  readers: ExplainReaders,
  facts: PlanFacts,
  from: From | undefined,
): Promise<ReadonlyMap<IpFamily, FamilyState>> {
  const found = await readAddresses(readers);
  const rules =
    facts.iptablesBackend === undefined
      ? undefined
      : await readers.openRules(facts.iptablesBackend);
  const states = new Map<IpFamily, FamilyState>();
  for (const family of facts.families) {
    const destinations = destinationsOf(facts, family);
    if (destinations.length === 0) continue;
    const query: FamilyQuery = { facts, family, destinations, found, rules };
    states.set(family, await readFamily(readers, query, from));
  }
  return states;
}

function destinationsOf(facts: PlanFacts, family: IpFamily): readonly Destination[] {
  const forwarded = facts.mode === "ipvs" ? facts.forwards.map(({ to }) => to) : [];
  return [...facts.destinations, ...forwarded].filter(
    ({ address }) => familyOf(address) === family,
  );
}

interface FamilyQuery {
  readonly facts: PlanFacts;
  readonly family: IpFamily;
  readonly destinations: readonly Destination[];
  readonly found: ReadAddresses;
  /** Undefined: there are none. */
  readonly rules: Pick<Iptables, "observe"> | undefined;
}

type Pictures = Pick<FamilyState, "planned" | "observed">;

async function readFamily(
  readers: ExplainReaders,
  query: FamilyQuery,
  from: From | undefined,
): Promise<FamilyState> {
  const { facts, family, destinations, found } = query;
  const pictures = await readPictures(readers, query);
  const { bound } = pictures.observed;
  // Only IPVS has addresses of its own.
  const addresses =
    facts.mode === "ipvs" ? found.others : new Set([...found.bound, ...found.others]);
  const isElsewhere = (address: IpAddress): boolean =>
    !bound.has(address) && !addresses.has(address);
  const peers = [...peersOf(destinations, facts, pictures, from)].filter(isElsewhere);
  return { ...pictures, network: await readNetwork(readers, { family, addresses, peers }) };
}

async function readPictures(
  readers: ExplainReaders,
  { facts, family, destinations, found, rules }: FamilyQuery,
): Promise<Pictures> {
  const planned: RuleSet = facts.rules[family] ?? { chains: [], jumps: [] };
  const render = (rule: Parameters<typeof renderRule>[1]): string => renderRule(family, rule);
  if (facts.mode === "ipvs" && rules !== undefined) {
    const { bound } = found;
    return {
      planned: plannedPicture(facts, family, render),
      observed: await readPicture(readers, { family, planned, destinations, bound, rules }),
    };
  }
  const chains = plannedChains(planned, render);
  const concerned =
    facts.mode === "userspace"
      ? destinations.flatMap((one) => withListeners(one, facts.listeners))
      : destinations;
  const query = { family, planned, destinations: concerned };
  return {
    planned: { ...noServers, chains },
    observed: {
      ...noServers,
      chains: rules === undefined ? new Map() : await readChains(rules, query),
    },
  };
}

/** In modes without IPVS. */
const noServers: Omit<Picture, "chains"> = {
  sets: new Map(),
  servers: new Map(),
  bound: new Set(),
};

/** To whom routes are looked for: clients, destinations, endpoints. */
function* peersOf(
  destinations: readonly Destination[],
  facts: PlanFacts,
  { planned, observed }: Pictures,
  from: From | undefined,
): Generator<IpAddress> {
  if (from !== undefined && from !== "node") yield from;
  for (const { address } of destinations) if (!isLoopback(address)) yield address;
  for (const { address } of endpointsOf(facts, [planned, observed])) yield address;
}

function endpointsOf(
  facts: PlanFacts,
  pictures: readonly Picture[],
): readonly { readonly address: IpAddress }[] {
  switch (facts.mode) {
    case "ipvs":
      return pictures.flatMap(({ servers }) =>
        [...servers.values()].flatMap(({ realServers }) => realServers),
      );
    case "iptables":
      return pictures.flatMap(({ chains }) =>
        [...chains.values()]
          .flat()
          .flatMap(({ rule }) => (rule?.target.kind === "translate" ? [rule.target] : [])),
      );
    case "userspace":
      return facts.listeners.flatMap(({ backends }) => backends);
  }
}
