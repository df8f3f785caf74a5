import type { IpAddress, IpFamily } from "../base/ip.ts";
import { DesiredState, type DesiredView } from "../plan/desired-state.ts";
import { type DirtyKeys, noMarks } from "../plan/dirty-keys.ts";
import type { SysctlSetting } from "../plan/sysctls.ts";
import type { RuleSet } from "../state/rule.ts";
import type { DrainPolicy } from "./drain/drains.ts";
import type { PlannedRuleChange } from "./kinds/diff-rules.ts";
import type { OwnershipPolicy } from "./ownership/policy.ts";
import type { ManualWeightPolicy } from "./status/manual-weights.ts";

/** The input of one sync. */
export interface SyncGoal {
  readonly desired: DesiredView;
  /** The keys that planning touched since the previous sync. Their changes are never pending. */
  readonly touched: DirtyKeys;
  /** The supported families' planned rules. */
  readonly rules: ReadonlyMap<IpFamily, RuleSet>;
  readonly sysctls: readonly SysctlSetting[];
  /** Kernel modules that should be loaded but are not. */
  readonly missingModules: readonly string[];
  /** The node's addresses, except those on kube-ipvs0. They show which virtual servers are those of node ports. */
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  readonly ownership: OwnershipPolicy;
  readonly drain: DrainPolicy;
  readonly manualWeights: ManualWeightPolicy;
  /**
   * If defined, the link, all sets and these rules are also removed. Only `clean-up.ts` sets this. An empty desired
   * state alone, such as from an empty list of Services, does not remove them.
   */
  readonly cleanUp?: { readonly rules: readonly PlannedRuleChange[] };
}

/** A goal without IPVS mode Services, for iptables mode's rules and for clean-up. */
export const emptyGoal: SyncGoal = {
  ...{ desired: new DesiredState(), touched: noMarks(), rules: new Map(), sysctls: [] },
  ...{ missingModules: [], nodeAddresses: new Set(), manualWeights: "keep" },
  ownership: { foreignVirtualServers: "keep", excludeCIDRs: [] },
  drain: { tcpDeadlineSeconds: 0, udpDeadlineSeconds: 0 },
};
