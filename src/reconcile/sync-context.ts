import type { Clock } from "../base/clock.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import type { AddressChange, Kernel, SetChange } from "../kernel/kernel.ts";
import type { DirtyKeys } from "../plan/desired-state.ts";
import type { SysctlSetting } from "../plan/sysctls.ts";
import type { RuleSet } from "../state/rule.ts";
import type { DesiredView } from "./desired-view.ts";
import type { VirtualServerDiff } from "./diff.ts";
import type { KnownState } from "./known-state.ts";
import type { ReportBuilder } from "./report.ts";

/** What one sync is to reach. */
export interface SyncGoal {
  readonly desired: DesiredView;
  /** What to look at; `all` compares everything, after everything was observed. */
  readonly dirty: DirtyKeys | "all";
  /** Beside `all`: what planning touched since the sync before. Its changes wait for nothing. */
  readonly touched?: DirtyKeys;
  /** Planned rules of the supported families. */
  readonly rules: ReadonlyMap<IpFamily, RuleSet>;
  /** Addresses of the node other than ours: they tell a node port's virtual server. */
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  /** Absent: none is looked at. */
  readonly sysctls?: readonly SysctlSetting[];
}

/** The changes of one sync, by kind; worked out before the first write. */
export interface Work {
  readonly servers: readonly VirtualServerDiff[];
  /** Keys of virtual servers that stay as they are: they are not ours, or excluded. */
  readonly foreignServers: readonly string[];
  readonly addedEntries: readonly SetChange[];
  readonly removedEntries: readonly SetChange[];
  readonly addedAddresses: readonly AddressChange[];
  readonly removedAddresses: readonly AddressChange[];
  /** Settings that have another value. */
  readonly sysctls: readonly SysctlSetting[];
}

/** What everything that changes the kernel works with; `known` changes as the kernel does. */
export interface SyncTools {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Logger;
  readonly known: KnownState;
  readonly report: ReportBuilder;
}

/** What every step of a sync works with. */
export interface SyncContext extends SyncTools {
  readonly goal: SyncGoal;
  readonly work: Work;
  /** Repairs that others undo again and again, and that are put off: {@link thingOf} names. */
  isHeld(thing: string): boolean;
  /** The first sync since the start of the program. */
  readonly isFirst: boolean;
}
