import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { DesiredView } from "../plan/desired-state.ts";
import type { DirtyKeys } from "../plan/dirty-keys.ts";
import type { SysctlSetting } from "../plan/sysctls.ts";
import type { RuleSet } from "../state/rule.ts";
import type { DrainPolicy } from "./drain/drains.ts";
import type { PlannedRuleChange } from "./kinds/diff-rules.ts";
import type { OwnershipPolicy } from "./ownership/policy.ts";
import type { ManualWeightPolicy } from "./status/manual-weights.ts";

/** What one sync is to reach. */
export interface SyncGoal {
  readonly desired: DesiredView;
  /** What planning touched since the sync before; its changes wait for nothing. */
  readonly touched: DirtyKeys;
  /** Planned rules of the supported families. */
  readonly rules: ReadonlyMap<IpFamily, RuleSet>;
  readonly sysctls: readonly SysctlSetting[];
  /** Kernel modules that should be loaded and are known not to be. */
  readonly missingModules: readonly string[];
  /** Addresses of the node other than ours: they identify a node port's virtual server. */
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  readonly ownership: OwnershipPolicy;
  readonly drain: DrainPolicy;
  readonly manualWeights: ManualWeightPolicy;
  /**
   * The link, all sets and these rules are removed, too. Only `clean-up.ts` asks for it: without it, a desired state that is
   * empty, as after an empty list of Services, leaves them in place.
   */
  readonly cleanUp?: { readonly rules: readonly PlannedRuleChange[] };
}
