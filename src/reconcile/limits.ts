/** What keeps packets out: the limits of load balancers with source ranges, and the address guard. Pure. */
import { ipFamilies } from "../base/ip.ts";
import { type SetRole, setFor } from "../plan/sets.ts";
import { type SetEntry, setEntryParts } from "../state/set-entry.ts";
import type { VirtualServerId } from "../state/virtual-server.ts";
import type { Subject } from "./subject.ts";

/** Packets to ports with source ranges pass both. */
export const firewallChains = ["KUBE-PROXY-FIREWALL", "KUBE-SOURCE-RANGES-FIREWALL"] as const;

/** It shuts out this node. */
export const nodeFirewall = "KUBE-IPVS-OUT-FILTER";

/** Chains of filter with rules that implement source ranges. */
export const chainsOfLimits: ReadonlySet<string> = new Set([
  ...firewallChains,
  nodeFirewall,
  "INPUT",
  "OUTPUT",
]);

/** It rejects new connections to an address of ours on ports that no Service has. */
export const addressGuard = "KUBE-IPVS-FILTER";
export const chainsOfGuard: ReadonlySet<string> = new Set([addressGuard, "INPUT"]);

/** Sets of clients that are let in. */
export const sourceRoles: readonly SetRole[] = ["loadBalancerSourceCidr", "loadBalancerSourceIp"];

const limitSets = namesOf(["loadBalancerFirewall", ...sourceRoles]);
const guardSets = namesOf(["ipvsIps"]);

/** Whether entries of this set implement source ranges. */
export function isLimitSet(setName: string): boolean {
  return limitSets.has(setName);
}

/** Whether entries of this set are part of the address guard. */
export function isGuardSet(setName: string): boolean {
  return guardSets.has(setName);
}

/** Whether its loss lets packets through that source ranges keep out. */
export function isLimit(subject: Subject): boolean {
  if (subject.type === "entry") return isLimitSet(subject.setName);
  if (subject.type !== "chain") return false;
  return subject.table === "filter" && chainsOfLimits.has(subject.chainName);
}

/** Whether its loss may let packets through. Jumps of filter need its other chains, and share built-in chains with them. */
export function isRestriction(subject: Subject): boolean {
  if (subject.type === "entry") return isLimitSet(subject.setName) || isGuardSet(subject.setName);
  return subject.type === "chain" && subject.table === "filter";
}

/** Address, protocol and port that an entry of `hash:ip,port…` is about. */
export function serverOfEntry(entry: SetEntry): VirtualServerId | undefined {
  const { address, protocol, port } = setEntryParts(entry);
  if (address === undefined || protocol === undefined || port === undefined) return undefined;
  return { address, protocol, port };
}

function namesOf(roles: readonly SetRole[]): ReadonlySet<string> {
  return new Set(ipFamilies.flatMap((family) => roles.map((role) => setFor(role, family).name)));
}
