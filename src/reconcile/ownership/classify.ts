/**
 * Decides at startup who owns the virtual servers in the kernel. The result depends only on the kernel state, the API
 * objects and the ownership record. docs/decisions/0013 describes the rule and its limits. Pure.
 */
import {
  familyOf,
  type HostPort,
  type IpAddress,
  type IpFamily,
  ipFamilies,
  isLoopback,
} from "../../base/ip.ts";
import { setFor } from "../../plan/sets.ts";
import { type RealServer, realServerKey } from "../../state/real-server.ts";
import { addressOf, type SetEntry } from "../../state/set-entry.ts";
import type { ServerKey, VirtualServerId } from "../../state/virtual-server.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { OwnershipPolicy } from "./policy.ts";
import { addressSetRoles, isNamedByAddress, isNamedByPort, type Members } from "./set-marks.ts";

/** An earlier run's record, by virtual server key. */
export interface RecordedOwnership {
  /** Our virtual servers that no set identifies by address. */
  readonly owned: ReadonlySet<ServerKey>;
  /** Foreign virtual servers that one of our sets may identify as ours. */
  readonly foreign: ReadonlySet<ServerKey>;
}

export const nothingRecorded: RecordedOwnership = { owned: new Set(), foreign: new Set() };

export interface OwnershipFacts {
  readonly cached: CachedState;
  readonly recorded: RecordedOwnership;
  readonly policy: OwnershipPolicy;
  /** Addresses on links other than kube-ipvs0. */
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  /** Whether a Service requests this virtual server. Always false during clean-up. */
  isClaimed(key: ServerKey): boolean;
  /** Whether a Service desires this real server. */
  isKnownEndpoint(realServerKey: HostPort): boolean;
}

/** `possibly-owned`: the virtual server is ours according to its real servers alone. It is kept and reported. */
export type Owner = "owned" | "foreign" | "possibly-owned";

export function* classifyServers(
  facts: OwnershipFacts,
): Generator<void, ReadonlyMap<ServerKey, Owner>> {
  const traces = kernelTraces(facts.cached);
  const owners = new Map<ServerKey, Owner>();
  for (const [key, { virtualServer, realServers }] of facts.cached.virtualServers) {
    owners.set(key, ownerOf(key, virtualServer, realServers, { ...facts, ...traces }));
    yield;
  }
  return owners;
}

interface KernelTraces {
  /** The entries of sets in ipset and nf_tables, because leftover sets identify leftover virtual servers. */
  readonly marks: Members;
  /** Addresses in our address sets. If there are port ranges, also the addresses in the set of the address guard. */
  readonly namedAddresses: ReadonlySet<string>;
  /** Families whose sets other software flushed: addresses are bound, but the set of the address guard is empty. */
  readonly flushedFamilies: ReadonlySet<IpFamily>;
}

function ownerOf(
  key: ServerKey,
  id: VirtualServerId,
  realServers: readonly RealServer[],
  facts: OwnershipFacts & KernelTraces,
): Owner {
  const { cached, marks, recorded, policy } = facts;
  // Virtual servers with firewall marks are ours, because the kernel client does not list those of third parties.
  if (policy.foreignVirtualServers === "delete" || id.protocol === "FWM") return "owned";
  // kube-ipvs does not write such an entry for a foreign virtual server. If the entry exists although the record says
  // otherwise, a proxy that ran after the record was written took over the virtual server.
  if (isNamedByAddress(id, marks)) return "owned";
  if (recorded.foreign.has(key)) return "foreign";
  if (recorded.owned.has(key)) return "owned";
  // Sets for SCTP node ports contain addresses, so they identify a node port even after its address was removed from
  // the node. kube-proxy 1.20 also serves loopback node ports. kube-ipvs does not, but must remove these virtual
  // servers.
  const isOnNode = facts.nodeAddresses.has(id.address) || isLoopback(id.address);
  const isNodePort = id.protocol === "SCTP" || isOnNode;
  if (isNodePort && isNamedByPort(id, marks)) return "owned";
  // Only kube-ipvs and kube-proxy bind addresses to kube-ipvs0. If no set contains the address because other software
  // flushed the sets, the bound address shows that the virtual server is ours.
  const isBound = cached.addresses.has(id.address);
  if (isBound && !facts.namedAddresses.has(id.address)) return "owned";
  const isClaimed = facts.isClaimed(key);
  if (isClaimed && facts.flushedFamilies.has(familyOf(id.address))) return "owned";
  // A virtual server without real servers is not in use by a third party.
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
  const sources = [cached.setEntries, cached.otherEntries];
  const hasEntry = (name: string, entry: SetEntry): boolean =>
    sources.some((entries) => entries.get(name)?.has(entry) === true);
  const namedAddresses = new Set<string>();
  const flushedFamilies = new Set<IpFamily>();
  const markCount = (family: IpFamily): number =>
    [...cached.virtualServers.values()].filter(
      ({ virtualServer: { protocol, address } }) =>
        protocol === "FWM" && familyOf(address) === family,
    ).length;
  for (const family of ipFamilies) {
    for (const role of addressSetRoles) {
      const { name } = setFor(role, family);
      for (const entries of sources) {
        for (const entry of entries.get(name) ?? []) namedAddresses.add(addressOf(entry));
      }
    }
    const guardSet = setFor("ipvsIps", family).name;
    const guards = sources.flatMap((entries) => [...(entries.get(guardSet) ?? [])].map(addressOf));
    const hasGuards = guards.length > 0;
    // An address that has only port ranges is in no other set, and has its own mark. If there are more such addresses
    // than marks, other software flushed a set.
    const unnamed = new Set(guards.filter((address) => !namedAddresses.has(address)));
    if (unnamed.size <= markCount(family)) for (const one of unnamed) namedAddresses.add(one);
    const isBound = [...cached.addresses].some((address) => familyOf(address) === family);
    if (!hasGuards && isBound) flushedFamilies.add(family);
  }
  return { marks: { hasEntry }, namedAddresses, flushedFamilies };
}
