/** Identifies restrictions: limits, which implement source ranges, and the address guard. Pure. */
import { ipFamilies } from "../base/ip.ts";
import { rangesChain } from "../plan/range-rules.ts";
import { type SetRole, setFor } from "../plan/sets.ts";
import { tunnelChain } from "../plan/tunnel-rules.ts";
import { type SetEntry, setEntryFields } from "../state/set-entry.ts";
import type { AddressServerId } from "../state/virtual-server.ts";
import type { Subject } from "./subject.ts";

/** Packets to ports with source ranges traverse these two chains. */
export const firewallChains = ["KUBE-PROXY-FIREWALL", "KUBE-SOURCE-RANGES-FIREWALL"] as const;

/** The chain that blocks this node's own packets. */
export const nodeFirewall = "KUBE-IPVS-OUT-FILTER";

/** Chains of the filter table with rules that implement source ranges. */
export const chainsOfLimits: ReadonlySet<string> = new Set([
  ...firewallChains,
  nodeFirewall,
  "INPUT",
  "OUTPUT",
]);

/** This chain marks packets to port ranges, and drops those from clients that source ranges block. */
const isRangesChain = ({
  table,
  chainName,
}: Extract<Subject, { readonly type: "chain" }>): boolean =>
  table === "mangle" && chainName === rangesChain;

/** Drops tunneled packets unless they come from a Node and their address and port are served. */
const isTunnelChain = ({ chainName }: Extract<Subject, { readonly type: "chain" }>): boolean =>
  chainName === tunnelChain;

/** Rejects new connections to our addresses on ports that do not belong to a Service. */
export const addressGuard = "KUBE-IPVS-FILTER";
export const chainsOfGuard: ReadonlySet<string> = new Set([addressGuard, "INPUT"]);

/** Roles of the sets that contain admitted clients. */
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

/** Whether losing this resource admits packets that source ranges block. */
export function isLimit(subject: Subject): boolean {
  if (subject.type === "entry") return isLimitSet(subject.setName);
  if (subject.type !== "chain") return false;
  if (isRangesChain(subject)) return true;
  return subject.table === "filter" && chainsOfLimits.has(subject.chainName);
}

/**
 * Whether losing this resource may admit packets. All chains of the filter table are included, because jumps depend on
 * their target chains and share built-in chains with other jumps.
 */
export function isRestriction(subject: Subject): boolean {
  if (subject.type === "entry") return isLimitSet(subject.setName) || isGuardSet(subject.setName);
  if (subject.type !== "chain") return false;
  return subject.table === "filter" || isRangesChain(subject) || isTunnelChain(subject);
}

/** The address, protocol and port of an entry in a `hash:ip,port…` set. */
export function serverOfEntry(entry: SetEntry): AddressServerId | undefined {
  const { address, protocol, port } = setEntryFields(entry);
  if (address === undefined || protocol === undefined || port === undefined) return undefined;
  return { address, protocol, port };
}

function namesOf(roles: readonly SetRole[]): ReadonlySet<string> {
  return new Set(ipFamilies.flatMap((family) => roles.map((role) => setFor(role, family).name)));
}
