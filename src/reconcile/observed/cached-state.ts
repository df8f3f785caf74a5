import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { ObservedIpSet } from "../../state/ip-set.ts";
import type { RealServer } from "../../state/real-server.ts";
import type { RuleSet } from "../../state/rule.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { VirtualServer } from "../../state/virtual-server.ts";
import type { ChangePlan } from "../change-plan.ts";
import type { SyncGoal } from "../sync-goal.ts";

/** A virtual server as the kernel has it; draining real servers are in the list with weight 0. */
export interface CachedVirtualServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly RealServer[];
}

/** By key. */
export type CachedServers = ReadonlyMap<string, CachedVirtualServer>;

/** Rules of ours as the kernel prints them: texts by `table chain`. */
export interface CachedRules {
  /** Our own chains; an absent one does not exist. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /** Our jumps in chains that are not ours, in the order in which they stand there. */
  readonly jumps: ReadonlyMap<string, readonly string[]>;
  /** The plan that they are just as it wants them; absent: not compared yet. */
  readonly plan?: RuleSet;
}

export const noRules: CachedRules = { chains: new Map(), jumps: new Map() };

/**
 * The kernel's state as last observed, with the outcomes of our changes since. It saves reading the kernel for each
 * change. Observation (`observer.ts`) and outcomes (`kinds/`) write it; planning reads it.
 */
export class CachedState {
  virtualServers: Map<string, CachedVirtualServer> = new Map();
  /** Sets of our names as they were made, fit or unfit for our entries; by name. */
  sets: Map<string, ObservedIpSet> = new Map();
  /** Names of sets that a migration left behind. */
  temporarySets: Set<string> = new Set();
  /** By set name. A set without a key does not exist, or cannot hold our entries. */
  setEntries: Map<string, Set<SetEntry>> = new Map();
  /** On kube-ipvs0. */
  addresses: Set<IpAddress> = new Set();
  /** Undefined until it has been read. */
  readonly rules: Map<IpFamily, CachedRules> = new Map();
  /** By path; a value is undefined where the kernel has no such setting, the key absent where it was not read. */
  readonly sysctls: Map<string, string | undefined> = new Map();
  hasLink = false;

  hasEntry(setName: string, entry: SetEntry): boolean {
    return this.setEntries.get(setName)?.has(entry) ?? false;
  }
}

/** As long as the plan is the same object, the rules need not be compared again. */
export function noteRightRules(
  cached: CachedState,
  { changes }: Pick<ChangePlan, "changes">,
  { rules }: Pick<SyncGoal, "rules">,
): void {
  for (const [family, plan] of rules) {
    const isChanged = changes.some((change) => "family" in change && change.family === family);
    const present = cached.rules.get(family);
    if (!isChanged && present !== undefined && present.plan !== plan) {
      cached.rules.set(family, { ...present, plan });
    }
  }
}
