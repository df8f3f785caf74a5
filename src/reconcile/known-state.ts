import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { ObservedIpSet } from "../state/ip-set.ts";
import type { RealServer } from "../state/real-server.ts";
import type { RuleSet } from "../state/rule.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type { VirtualServer } from "../state/virtual-server.ts";

/** A virtual server as the kernel has it; draining real servers are in the list with weight 0. */
export interface KnownVirtualServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly RealServer[];
}

/** Rules of ours as the kernel prints them: texts by `table chain`. */
export interface KnownRules {
  /** Our own chains; an absent one does not exist. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /** Our jumps in chains that are not ours, in the order in which they stand there. */
  readonly jumps: ReadonlyMap<string, readonly string[]>;
  /** The plan that they are just as it wants them; absent: not compared yet. */
  readonly plan?: RuleSet;
}

/**
 * What the kernel holds, as last observed and changed by us since. It saves reading the kernel for each
 * change; a full observation replaces it at start, on a timer and after any failure.
 */
export class KnownState {
  readonly virtualServers: Map<string, KnownVirtualServer> = new Map();
  /** Sets of our names as they were made, fit or unfit for our entries; by name. */
  readonly sets: Map<string, ObservedIpSet> = new Map();
  /** Names of sets that a migration left behind. */
  readonly temporarySets: Set<string> = new Set();
  /** By set name. A set without a key does not exist, or cannot hold our entries. */
  readonly setEntries: Map<string, Set<SetEntry>> = new Map();
  /** On kube-ipvs0. */
  readonly addresses: Set<IpAddress> = new Set();
  /** Absent: not read yet. */
  readonly rules: Map<IpFamily, KnownRules> = new Map();
  /** By path; a value is undefined where the kernel has no such setting, the key absent where it was not read. */
  readonly sysctls: Map<string, string | undefined> = new Map();
  hasLink = false;

  /** A copy that goes its own way. */
  clone(): KnownState {
    const copy = new KnownState();
    for (const [key, server] of this.virtualServers) copy.virtualServers.set(key, server);
    for (const [name, set] of this.sets) copy.sets.set(name, set);
    for (const name of this.temporarySets) copy.temporarySets.add(name);
    for (const [name, entries] of this.setEntries) copy.setEntries.set(name, new Set(entries));
    for (const address of this.addresses) copy.addresses.add(address);
    for (const [family, rules] of this.rules) copy.rules.set(family, rules);
    for (const [path, value] of this.sysctls) copy.sysctls.set(path, value);
    copy.hasLink = this.hasLink;
    return copy;
  }

  hasEntry(setName: string, entry: SetEntry): boolean {
    return this.setEntries.get(setName)?.has(entry) ?? false;
  }
}
