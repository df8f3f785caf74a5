/** What is ours, and what may be changed or removed. Pure filters on what was observed. */
import {
  type Cidr,
  cidrContains,
  familyOf,
  type IpAddress,
  type IpFamily,
  ipFamilies,
} from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import { type SetRole, setFor } from "../plan/sets.ts";
import { addressOf, addressPortEntry, portEntry } from "../state/set-entry.ts";
import type { VirtualServerId } from "../state/virtual-server.ts";
import { idOf } from "./diff.ts";
import type { KnownState } from "./known-state.ts";

export interface OwnershipPolicy {
  /** `keep` leaves virtual servers of others alone; `delete` removes them, as kube-proxy does. */
  readonly foreignVirtualServers: "keep" | "delete";
  /** Virtual servers in these networks are never removed. */
  readonly excludeCidrs: readonly Cidr[];
}

/** What a decision about one virtual server rests on. */
export interface OwnershipFacts {
  readonly policy: OwnershipPolicy;
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  /**
   * Keys that this process made or took over. Its memory goes before the sets in the kernel: when somebody
   * flushes those, our virtual servers are not foreign for it.
   */
  readonly ours: ReadonlySet<string>;
  /** Keys that this process found to be of others. */
  readonly foreign: ReadonlySet<string>;
}

const addressSets: readonly SetRole[] = [
  "clusterIp",
  "externalIp",
  "externalIpLocal",
  "loadBalancer",
];

const portSets: Readonly<Record<Protocol, SetRole>> = {
  TCP: "nodePortTcp",
  UDP: "nodePortUdp",
  SCTP: "nodePortSctp",
};

/** Nothing in an excluded network is removed, whoever made it. */
export function isExcluded(id: VirtualServerId, { excludeCidrs }: OwnershipPolicy): boolean {
  return excludeCidrs.some((cidr) => cidrContains(cidr, id.address));
}

/** Says whether an observed virtual server that nobody wants may be removed. */
export function mayRemove(key: string, known: KnownState, facts: OwnershipFacts): boolean {
  const server = known.virtualServers.get(key);
  if (server === undefined || isExcluded(idOf(server), facts.policy)) return false;
  if (facts.policy.foreignVirtualServers === "delete" || facts.ours.has(key)) return true;
  const id = idOf(server);
  if (facts.foreign.has(key)) return false;
  return isOurs(id, known, facts.nodeAddresses) || standsAlone(id, known, facts);
}

/**
 * Says whether an observed virtual server that a Service claims belongs to others, and so must stay as it
 * is. What stands on kube-ipvs0 tells for us here: whoever flushed the sets while we were away left it.
 */
export function isContested(key: string, known: KnownState, facts: OwnershipFacts): boolean {
  const server = known.virtualServers.get(key);
  if (server === undefined || facts.policy.foreignVirtualServers === "delete") return false;
  if (facts.ours.has(key)) return false;
  if (facts.foreign.has(key)) return true;
  const id = idOf(server);
  if (isOurs(id, known, facts.nodeAddresses) || known.addresses.has(id.address)) return false;
  return !haveLostEntries(known, familyOf(id.address));
}

/**
 * On kube-ipvs0 only we bind addresses: of one that no set names any more, since somebody flushed it or made it anew,
 * they tell what is ours; but for node ports. Where the sets name another port of it, it may be others' server.
 */
function standsAlone(
  { address }: VirtualServerId,
  known: KnownState,
  facts: OwnershipFacts,
): boolean {
  return known.addresses.has(address) && !addressesNamed(known, facts).has(address);
}

/** Of one pass, in which nothing is written: asked for each of tens of thousands of virtual servers. */
const namedInPass = new WeakMap<OwnershipFacts, ReadonlySet<string>>();

function addressesNamed(known: KnownState, facts: OwnershipFacts): ReadonlySet<string> {
  const before = namedInPass.get(facts);
  if (before !== undefined) return before;
  const named = new Set<string>();
  for (const { name } of ipFamilies.flatMap((family) =>
    addressSets.map((role) => setFor(role, family)),
  )) {
    for (const entry of known.setEntries.get(name) ?? []) named.add(addressOf(entry));
  }
  namedInPass.set(facts, named);
  return named;
}

/** Addresses are bound of which no set knows: the sets say nothing about ownership any more. */
function haveLostEntries(known: KnownState, family: IpFamily): boolean {
  if ((known.setEntries.get(setFor("ipvsIps", family).name)?.size ?? 0) > 0) return false;
  return [...known.addresses].some((address) => familyOf(address) === family);
}

/**
 * Ownership as the kernel tells it, so that it survives restarts and the take-over from kube-proxy: ours is
 * what one of our sets names, by address and port, or by a node port on a node address. Hence set entries
 * are written before their virtual server and removed after it.
 */
export function isOurs(
  { address, protocol, port }: VirtualServerId,
  known: KnownState,
  nodeAddresses: ReadonlySet<IpAddress>,
): boolean {
  const family = familyOf(address);
  const entry = addressPortEntry(address, protocol, port);
  if (addressSets.some((role) => known.hasEntry(setFor(role, family).name, entry))) return true;
  if (!nodeAddresses.has(address)) return false;
  const member = protocol === "SCTP" ? entry : portEntry(port);
  return known.hasEntry(setFor(portSets[protocol], family).name, member);
}
