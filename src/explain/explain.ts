/**
 * Implements `kube-ipvs explain`, which compares the planned and actual paths of packets to a Service. Changes nothing.
 */

import type { Destination, PlanFacts } from "../answer/answers.ts";
import type { Connections, Explanation } from "../answer/explanation.ts";
import type { Clock } from "../base/clock.ts";
import { familyOf, hostPort, type IpAddress, type IpFamily, isLoopback } from "../base/ip.ts";
import { openReaders } from "../kernel/open-readers.ts";
import { type DestinationInput, explainDestination } from "./explain-destination.ts";
import { explainForwarded } from "./explain-forwarded.ts";
import type { From } from "./origins.ts";
import { isHere } from "./packet/node-state.ts";
import { readAffinity } from "./read/read-affinity.ts";
import { noConnections, readConnections } from "./read/read-connections.ts";
import { type ExplainReaders, type FamilyState, readFamilies } from "./read/read-families.ts";
import { type RecordedNode, readRecorded, recordedText } from "./recorded.ts";

export interface ExplainOptions {
  /** The link on which the client's packets arrive. Default: the link of the route to the client. */
  readonly inLink?: string;
  /** Whether to read the client's connections. Default: true. */
  readonly hasConnections?: boolean;
}

/** Returns one explanation per destination of the facts. Rejects if the kernel cannot be read. */
export async function explain(
  facts: PlanFacts,
  from: From | undefined,
  options: ExplainOptions,
  { clock }: { readonly clock: Clock },
): Promise<readonly Explanation[]> {
  const readers = openReaders(clock);
  try {
    return await explainWith(readers, facts, from, options);
  } finally {
    readers.close();
  }
}

export async function explainWith(
  readers: ExplainReaders,
  facts: PlanFacts,
  from: From | undefined,
  { inLink, hasConnections = true }: ExplainOptions = {},
): Promise<readonly Explanation[]> {
  const states = await readFamilies(readers, facts, from, inLink);
  return await explainAll({ facts, states }, from, inLink, (asked) =>
    hasConnections ? connectionsOf(readers, asked) : noConnections,
  );
}

/** Returns this node's plan and kernel state for {@link explainRecorded}. Rejects if the kernel cannot be read. */
export async function record(
  facts: PlanFacts,
  { clock }: { readonly clock: Clock },
): Promise<string> {
  const readers = openReaders(clock);
  try {
    return recordedText({ facts, states: await readFamilies(readers, facts, undefined) });
  } finally {
    readers.close();
  }
}

/** Explains packets to all recorded destinations, without the client's connections and route. */
export async function explainRecorded(
  text: string,
  from: From | undefined,
  inLink: string | undefined,
): Promise<readonly Explanation[]> {
  return await explainAll(readRecorded(text), from, inLink, () => noConnections);
}

async function explainAll(
  { facts, states }: RecordedNode,
  from: From | undefined,
  inLink: string | undefined,
  connectionsTo: (asked: Asked) => Connections | Promise<Connections>,
): Promise<readonly Explanation[]> {
  const explanations: Explanation[] = [];
  for (const destination of facts.destinations) {
    const state = states.get(familyOf(destination.address));
    if (state === undefined)
      throw new Error(`Cannot explain: ${unservedText(destination, facts.families)}`);
    const connections = await connectionsTo({ facts, destination, from, state });
    explanations.push(
      explainOne({
        ...{ destination, facts, connections },
        ...state,
        ...(from === undefined ? {} : { from }),
        ...(inLink === undefined ? {} : { inLink }),
      }),
    );
  }
  return explanations;
}

/** One destination of the facts, with the kernel state. */
export interface FactsInput extends Omit<DestinationInput, "mode" | "services" | "conflicts"> {
  readonly facts: PlanFacts;
}

/** Explains one destination. For a node port that kube-ipvs forwards, explains both parts of the path. Pure. */
export function explainOne({ facts, ...given }: FactsInput): Explanation {
  const input = {
    ...{ ...given, mode: facts.mode },
    ...{ services: facts.services, conflicts: facts.conflicts },
  };
  const to = forwardOf(facts, input.destination, input.from);
  return to === undefined ? explainDestination(input) : explainForwarded(input, to);
}

interface Asked {
  readonly facts: PlanFacts;
  readonly destination: Destination;
  readonly from: From | undefined;
  readonly state: FamilyState;
}

async function connectionsOf(
  readers: ExplainReaders,
  { facts, destination, from, state }: Asked,
): Promise<Connections> {
  const to = forwardOf(facts, destination, from) ?? destination;
  const client = clientOf(from, to, state);
  const connections = await readConnections(readers, to, client, facts.mode === "ipvs");
  if (facts.mode !== "iptables" || client === undefined) return connections;
  return {
    ...connections,
    templates: readAffinity(readers, to, client, state.observed.chains),
  };
}

/** Returns the destination to which kube-ipvs forwards packets. Only this node's processes reach a loopback address. */
function forwardOf(
  facts: PlanFacts,
  { protocol, address, port }: Destination,
  from: From | undefined,
): Destination | undefined {
  if (from !== undefined && from !== "node" && !isLoopback(from)) return undefined;
  return facts.forwards.find(
    (one) =>
      one.from.protocol === protocol && one.from.address === address && one.from.port === port,
  )?.to;
}

/** Returns the client's address. A local process that connects to a virtual IP uses that IP as its source. */
function clientOf(
  from: From | undefined,
  { address }: Destination,
  { observed }: FamilyState,
): IpAddress | undefined {
  if (from !== "node") return from;
  return isHere(address, observed) ? address : observed.network.routes.get(address)?.source;
}

/** The error message for a destination whose family is not served. */
function unservedText({ address, port }: Destination, families: readonly IpFamily[]): string {
  const family = familyOf(address);
  return `${hostPort(address, port)} is ${family}, but kube-ipvs serves only ${families.join(" and ")} on this node`;
}
