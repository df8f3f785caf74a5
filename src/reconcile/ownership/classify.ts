/**
 * Whose the virtual servers are that a start finds in the kernel. The same kernel state, objects and record always give
 * the same answer; docs/decisions/0013 has the rule, and what it cannot know. Pure.
 */
import { familyOf, type IpAddress, type IpFamily, ipFamilies, isLoopback } from "../../base/ip.ts";
import { setFor } from "../../plan/sets.ts";
import { type RealServer, realServerKey } from "../../state/real-server.ts";
import { addressOf } from "../../state/set-entry.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { OwnershipPolicy } from "./policy.ts";
import { addressSetRoles, isNamedByAddress, isNamedByPort } from "./set-marks.ts";

/** What an earlier run recorded, by virtual-server key. */
export interface RecordedOwnership {
  /** Ours, though no set names them by address. */
  readonly owned: ReadonlySet<string>;
  /** A third party's, though one of our sets may name them. */
  readonly foreign: ReadonlySet<string>;
}

export const nothingRecorded: RecordedOwnership = { owned: new Set(), foreign: new Set() };

export interface OwnershipFacts {
  readonly cached: CachedState;
  readonly recorded: RecordedOwnership;
  readonly policy: OwnershipPolicy;
  /** On links other than kube-ipvs0. */
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  /** Whether a Service asks for this virtual server. Clean-up knows of none. */
  isClaimed(key: string): boolean;
  /** Whether this is a real server that some Service wants. */
  isKnownEndpoint(realServerKey: string): boolean;
}

/** `possibly-owned`: nothing but its real servers speaks for us; it is kept, and named. */
export type Owner = "owned" | "foreign" | "possibly-owned";

/** Classifies every virtual server of the cache. */
export function* classifyServers(
  facts: OwnershipFacts,
): Generator<void, ReadonlyMap<string, Owner>> {
  const traces = kernelTraces(facts.cached);
  const owners = new Map<string, Owner>();
  for (const [key, { virtualServer, realServers }] of facts.cached.virtualServers) {
    owners.set(key, ownerOf(key, virtualServer, realServers, { ...facts, ...traces }));
    yield;
  }
  return owners;
}

interface KernelTraces {
  /** Addresses that our address sets name. */
  readonly namedAddresses: ReadonlySet<string>;
  /** Families in which addresses are bound of which no set knows: someone flushed the sets. */
  readonly flushedFamilies: ReadonlySet<IpFamily>;
}

function ownerOf(
  key: string,
  id: VirtualServerId,
  realServers: readonly RealServer[],
  facts: OwnershipFacts & KernelTraces,
): Owner {
  const { cached, recorded, policy } = facts;
  if (policy.foreignVirtualServers === "delete") return "owned";
  // We write no such entry of what a third party has: whoever ran since the record was written took it over.
  if (isNamedByAddress(id, cached)) return "owned";
  if (recorded.foreign.has(key)) return "foreign";
  if (recorded.owned.has(key)) return "owned";
  // The sets of SCTP name addresses as well: they say it even when the address has gone from the node.
  // kube-proxy 1.20 serves node ports on loopback, too; we do not, so nobody else would remove them.
  const isOnNode = facts.nodeAddresses.has(id.address) || isLoopback(id.address);
  const isNodePort = id.protocol === "SCTP" || isOnNode;
  if (isNodePort && isNamedByPort(id, cached)) return "owned";
  // On kube-ipvs0 only we bind addresses: of one that no set names any more, since someone flushed it, they say whose.
  const isBound = cached.addresses.has(id.address);
  if (isBound && !facts.namedAddresses.has(id.address)) return "owned";
  const isClaimed = facts.isClaimed(key);
  if (isClaimed && facts.flushedFamilies.has(familyOf(id.address))) return "owned";
  // One without real servers serves nobody else.
  const servesOurs = realServers.length === 0 || realServers.some((one) => isKnown(one, facts));
  if (isClaimed && isBound && servesOurs) return "owned";
  if (!haveKnownEndpoints(realServers, facts)) return "foreign";
  return isClaimed ? "owned" : "possibly-owned";
}

function haveKnownEndpoints(realServers: readonly RealServer[], facts: OwnershipFacts): boolean {
  return realServers.length > 0 && realServers.every((server) => isKnown(server, facts));
}

function isKnown(server: RealServer, { isKnownEndpoint }: OwnershipFacts): boolean {
  return isKnownEndpoint(realServerKey(server));
}

function kernelTraces(cached: CachedState): KernelTraces {
  const namedAddresses = new Set<string>();
  const flushedFamilies = new Set<IpFamily>();
  for (const family of ipFamilies) {
    for (const role of addressSetRoles) {
      const { name } = setFor(role, family);
      for (const entry of cached.setEntries.get(name) ?? []) namedAddresses.add(addressOf(entry));
    }
    const guards = cached.setEntries.get(setFor("ipvsIps", family).name)?.size ?? 0;
    const isBound = [...cached.addresses].some((address) => familyOf(address) === family);
    if (guards === 0 && isBound) flushedFamilies.add(family);
  }
  return { namedAddresses, flushedFamilies };
}
