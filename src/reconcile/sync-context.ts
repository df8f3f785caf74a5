import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import type { AddressChange, Kernel, SetChange } from "../kernel/kernel.ts";
import type { DesiredState, DirtyKeys } from "../plan/desired-state.ts";
import type { RuleSet } from "../state/rule.ts";
import type { VirtualServerDiff } from "./diff.ts";
import type { KnownState } from "./known-state.ts";
import type { ReportBuilder } from "./report.ts";

/** What one sync is to reach. */
export interface SyncGoal {
  readonly desired: DesiredState;
  /** What to look at; `all` compares everything, after everything was observed. */
  readonly dirty: DirtyKeys | "all";
  /** Planned rules of the supported families. */
  readonly rules: ReadonlyMap<IpFamily, RuleSet>;
  /** Addresses of the node other than ours: they tell a node port's virtual server. */
  readonly nodeAddresses: ReadonlySet<IpAddress>;
}

/** The changes of one sync, by kind; worked out before the first write. */
export interface Work {
  readonly servers: readonly VirtualServerDiff[];
  readonly addedEntries: readonly SetChange[];
  readonly removedEntries: readonly SetChange[];
  readonly addedAddresses: readonly AddressChange[];
  readonly removedAddresses: readonly AddressChange[];
}

/** What every step of a sync works with. Steps change `known` as the kernel changes. */
export interface SyncContext {
  readonly kernel: Kernel;
  readonly known: KnownState;
  readonly goal: SyncGoal;
  readonly work: Work;
  readonly report: ReportBuilder;
  readonly log: Logger;
}
