/** `kube-ipvs explain`: what is planned, and what the kernel has, for packets to a Service. Nothing is changed. */
import type { Clock } from "../base/clock.ts";
import { familyOf, hostPort, type IpAddress, type IpFamily, isLoopback } from "../base/ip.ts";
import type { Destination, PlanFacts } from "../daemon/operator/answers.ts";
import { renderRule } from "../kernel/iptables/render.ts";
import { type KernelReaders, openReaders } from "../kernel/open-readers.ts";
import { type DestinationInput, explainDestination } from "./explain-destination.ts";
import { explainForwarded } from "./explain-forwarded.ts";
import type { Explanation } from "./explanation.ts";
import type { From } from "./origins.ts";
import type { NodeNetwork, Picture } from "./packet/picture.ts";
import { plannedPicture } from "./planned-picture.ts";
import { readConnections } from "./read/read-connections.ts";
import { readNetwork } from "./read/read-network.ts";
import { readAddresses, readPicture } from "./read/read-picture.ts";

/** One for each destination of the facts. Rejects where the kernel cannot be read. */
export async function explain(
  facts: PlanFacts,
  from: From | undefined,
  { clock }: { readonly clock: Clock },
): Promise<readonly Explanation[]> {
  const readers = openReaders(clock, process.env);
  try {
    return await explainWith(readers, facts, from);
  } finally {
    readers.close();
  }
}

/** What is read of the kernel. */
export type ExplainReaders = Pick<
  KernelReaders,
  "ipSets" | "routes" | "conntrack" | "openRules" | "sockets"
> & {
  readonly ipvs: Pick<KernelReaders["ipvs"], "listVirtualServers" | "listRealServers">;
  readonly link: Pick<KernelReaders["link"], "find" | "listAddresses">;
  readonly sysctl: Pick<KernelReaders["sysctl"], "read">;
};

export async function explainWith(
  readers: ExplainReaders,
  facts: PlanFacts,
  from: From | undefined,
): Promise<readonly Explanation[]> {
  const states = await readFamilies(readers, facts, from);
  const explanations: Explanation[] = [];
  for (const destination of facts.destinations) {
    const state = states.get(familyOf(destination.address));
    if (state === undefined)
      throw new Error(`Cannot explain: ${unservedText(destination, facts.families)}`);
    const to = forwardOf(facts, destination, from) ?? destination;
    const connections = await readConnections(readers, to, clientOf(from, to, state));
    explanations.push(
      explainOne({
        ...{ destination, facts, connections },
        ...state,
        ...(from === undefined ? {} : { from }),
      }),
    );
  }
  return explanations;
}

/** Of a node port that kube-ipvs forwards itself, both halves of the way. */
export function explainOne(input: DestinationInput): Explanation {
  const to = forwardOf(input.facts, input.destination, input.from);
  return to === undefined ? explainDestination(input) : explainForwarded(input, to);
}

/** Nobody else gets to a loopback address. */
function forwardOf(
  { forwards }: Pick<PlanFacts, "forwards">,
  { protocol, address, port }: Destination,
  from: From | undefined,
): Destination | undefined {
  if (from !== undefined && from !== "node" && !isLoopback(from)) return undefined;
  return forwards.find(
    (one) =>
      one.from.protocol === protocol && one.from.address === address && one.from.port === port,
  )?.to;
}

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
  const rules = await readers.openRules(facts.iptablesBackend);
  const { bound, others } = await readAddresses(readers);
  const states = new Map<IpFamily, FamilyState>();
  const concerned = [...facts.destinations, ...facts.forwards.map(({ to }) => to)];
  for (const family of facts.families) {
    const destinations = concerned.filter(({ address }) => familyOf(address) === family);
    const planned = facts.rules[family];
    if (destinations.length === 0 || planned === undefined) continue;
    const observed = await readPicture(readers, { family, planned, destinations, bound, rules });
    const plan = plannedPicture(facts, family, (rule) => renderRule(family, rule));
    const isElsewhere = (address: IpAddress): boolean =>
      !bound.has(address) && !others.has(address);
    const peers = [...peersOf(destinations, [plan, observed], from)].filter(isElsewhere);
    states.set(family, {
      planned: plan,
      observed,
      network: await readNetwork(readers, { family, addresses: others, peers }),
    });
  }
  return states;
}

function* peersOf(
  destinations: readonly Destination[],
  pictures: readonly Picture[],
  from: From | undefined,
): Generator<IpAddress> {
  if (from !== undefined && from !== "node") yield from;
  for (const { address } of destinations) yield address;
  for (const { realServers } of pictures.flatMap(({ servers }) => [...servers.values()])) {
    for (const { address } of realServers) yield address;
  }
}

/** A process of the node talks to a virtual IP from that very address. */
function clientOf(
  from: From | undefined,
  { address }: Destination,
  { observed, network }: FamilyState,
): IpAddress | undefined {
  if (from !== "node") return from;
  const isOwn =
    observed.bound.has(address) || network.addresses.has(address) || isLoopback(address);
  return isOwn ? address : network.routes.get(address)?.source;
}

/** `10.96.0.10:80` is not an address of a family that is served. */
function unservedText({ address, port }: Destination, families: readonly IpFamily[]): string {
  const family = familyOf(address);
  return `${hostPort(address, port)} is ${family}, and kube-ipvs serves ${families.join(" and ")} on this node`;
}
