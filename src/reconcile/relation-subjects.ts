/** Subjects and lookups for `relations.ts`. Pure. */
import { familyOf, type IpFamily } from "../base/ip.ts";
import { rangesChain } from "../plan/range-rules.ts";
import type { PlannedVirtualServer } from "../plan/service-port-plan.ts";
import { setFor } from "../plan/sets.ts";
import type { Rule, RuleSet } from "../state/rule.ts";
import { addressPortEntry, type SetEntry, setEntryFields } from "../state/set-entry.ts";
import { type VirtualServerId, virtualServerKey } from "../state/virtual-server.ts";
import { nodeFirewall, serverOfEntry } from "./limits.ts";
import type { Subject } from "./subject.ts";

type ChainSubject = Extract<Subject, { readonly type: "chain" }>;

/** The virtual server of an entry, and the entry that admits packets to it through the address guard. */
export function* limited(entry: SetEntry): Generator<Subject> {
  const server = serverOfEntry(entry);
  if (server === undefined) return;
  const { name: setName } = setFor("loadBalancer", familyOf(server.address));
  const permit = addressPortEntry(server.address, server.protocol, server.port);
  yield { type: "entry", setName, entry: permit };
  yield { type: "virtual-server", virtualServer: virtualServerKey(server) };
}

/** The chain that drops packets from clients that a port range's source ranges block. */
export function marksOfRanges({ virtualServer }: PlannedVirtualServer): ChainSubject {
  const family = familyOf(virtualServer.address);
  return { type: "chain", family, table: "mangle", chainName: rangesChain };
}

/** Limits apply to packets before IPVS translates them, when they still have the virtual address and port. */
export function limitedServer({ virtualServer, range }: PlannedVirtualServer): VirtualServerId {
  const { tunnel, address, protocols: [protocol = "TCP"] = [], ranges } = range ?? {};
  if (tunnel === undefined || tunnel.isOfOtherNodes === true || address === undefined)
    return virtualServer;
  return { address, protocol, port: ranges?.[0]?.first ?? 0 };
}

/** The address that an entry guards. */
export function* guarded(entry: SetEntry): Generator<Subject> {
  const { address } = setEntryFields(entry);
  if (address !== undefined) yield { type: "address", address };
}

export function filterChain(family: IpFamily, chainName: string): ChainSubject {
  return { type: "chain", family, table: "filter", chainName };
}

export function familyOfSet(setName: string): IpFamily {
  return setName.startsWith("KUBE-6-") ? "IPv6" : "IPv4";
}

export function denialsIn(planned: RuleSet | undefined): ReadonlyMap<DenialKey, Rule> {
  const chain = planned?.chains.find(({ name }) => name === nodeFirewall);
  return new Map(
    (chain?.rules ?? []).flatMap((rule) =>
      rule.matches.flatMap((match) =>
        match.kind === "ipvs"
          ? [[denialKey(match.protocolNumber, match.address, match.port), rule] as const]
          : [],
      ),
    ),
  );
}

/** Identifies a virtual server that a rule denies to this node. */
export type DenialKey = string & { readonly __brand: "DenialKey" };

export function denialKey(protocolNumber: number, address: string, port: number): DenialKey {
  return `${protocolNumber} ${address} ${port}` as DenialKey;
}
