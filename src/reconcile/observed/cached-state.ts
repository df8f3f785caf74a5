import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { ObservedIpSet } from "../../state/ip-set.ts";
import type { RealServer } from "../../state/real-server.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { ServerKey, VirtualServer } from "../../state/virtual-server.ts";
import type { ChangePlan } from "../change-plan.ts";
import type { SyncGoal } from "../sync-goal.ts";
import type { CachedRules } from "./cached-rules.ts";

/** A virtual server in the kernel. Its list includes draining real servers, with weight 0. */
export interface CachedVirtualServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly RealServer[];
}

export type CachedServers = ReadonlyMap<ServerKey, CachedVirtualServer>;

/**
 * The kernel state as last observed, updated with the outcomes of our changes, so that the kernel need not be read for
 * each change. `observer.ts` writes observed state to it, `kinds/` writes outcomes, and planning reads it.
 */
export class CachedState {
  virtualServers: Map<ServerKey, CachedVirtualServer> = new Map();
  /** Existing sets with our names, by name, including sets that cannot contain our entries. */
  sets: Map<string, ObservedIpSet> = new Map();
  /** Names of temporary sets left over from a replacement. */
  temporarySets: Set<string> = new Set();
  /** The entries of our sets, by set name. Sets that do not exist or cannot contain our entries are not included. */
  setEntries: Map<string, Set<SetEntry>> = new Map();
  /**
   * Entries of our sets in the unused backend (ipset or nf_tables). These leftovers of kube-proxy or an earlier run
   * identify our virtual servers. They are kept here until the virtual servers are classified.
   */
  otherEntries: ReadonlyMap<string, ReadonlySet<SetEntry>> = new Map();
  /** Addresses on kube-ipvs0. */
  addresses: Set<IpAddress> = new Set();
  /** Our rules, by family. A family is not included until its rules have been read. */
  readonly rules: Map<IpFamily, CachedRules> = new Map();
  /**
   * The sysctls, by path. The value is undefined if the kernel has no such sysctl. Paths that have not been read are
   * not included.
   */
  readonly sysctls: Map<string, string | undefined> = new Map();
  hasLink = false;

  hasEntry(setName: string, entry: SetEntry): boolean {
    return this.setEntries.get(setName)?.has(entry) ?? false;
  }
}

/** Records the plan that the rules match. While the plan is the same object, the rules are not compared again. */
export function noteRightRules(
  cached: CachedState,
  { changes }: Pick<ChangePlan, "changes">,
  { rules }: Pick<SyncGoal, "rules">,
): void {
  for (const [family, plan] of rules) {
    const isChanged = changes.some((change) => "family" in change && change.family === family);
    const present = cached.rules.get(family);
    if (!isChanged && present !== undefined) present.plan = plan;
  }
}
