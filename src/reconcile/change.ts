/** Changes of kernel state as values: what a sync, a dry run and a clean-up are made of. No behavior, no I/O. */
import type { IpFamily } from "../base/ip.ts";
import type { AddressChange, EntryChange, IpvsChange, RuleChange } from "../kernel/kernel.ts";
import type { FlowSelection } from "../state/flow.ts";
import type { IpSet } from "../state/ip-set.ts";
import type { RealServer } from "../state/real-server.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type { VirtualServer } from "../state/virtual-server.ts";

/** Why a change is made; the same codes in dry runs, logs and tests. */
export type ChangeReason =
  /** Wanted and not there. */
  | "missing"
  /** There, with other parameters than it should have. */
  | "differs"
  /** There, ours, and nobody wants it any more. */
  | "unwanted"
  /** There, and lets in more than it should. */
  | "tightens"
  /** It stops keeping packets out: not before everything that needs it is gone. */
  | "loosens"
  /** There and desired, and something that it cannot be without is missing. */
  | "withheld"
  /** The endpoint left: no new connections, the present ones go on. */
  | "drain-start"
  /** The drain ended: no connection is left, its deadline passed, or the endpoint stopped serving. */
  | "drain-end"
  /** The capacity of a set must grow or may shrink. */
  | "resize"
  /** A set of our name whose type or family does not fit. */
  | "incompatible-set"
  /** Left behind by the replacement of a set. */
  | "leftover"
  /** Tracked UDP flows that lead to a real server that left, or to nobody. */
  | "stale-conntrack";

export interface ModuleLoad {
  readonly kind: "module-load";
  readonly module: string;
}

export interface SysctlWrite {
  readonly kind: "sysctl-write";
  readonly path: string;
  readonly before: string | undefined;
  readonly after: string;
}

export interface LinkChange {
  readonly kind: "link-create" | "link-remove";
  readonly link: string;
}

export interface SetCreate {
  readonly kind: "set-create";
  readonly set: IpSet;
}

/** Replaces a set by one with other parameters and the same entries. Rules follow the name. */
export interface SetSwap {
  readonly kind: "set-swap";
  readonly set: IpSet;
  readonly entries: ReadonlySet<SetEntry>;
}

export interface SetDestroy {
  readonly kind: "set-destroy";
  readonly setName: string;
  /** Why it stays, if that is known without asking the kernel. */
  readonly rejection?: Error;
}

/** `before`: rule texts as `iptables-save` prints them; undefined: no such chain, or nobody knows what it holds. */
export type FamilyRuleChange = { readonly family: IpFamily } & (
  | (RuleChange & { readonly kind: "chain-write"; readonly before: readonly string[] | undefined })
  | (RuleChange & { readonly kind: "chain-remove" | "jump-insert" | "jump-remove" })
);

/** `key`: of the virtual server. */
export type ServerChange = { readonly key: string } & (
  | (IpvsChange & {
      readonly kind: `${"virtual" | "real"}-server-${"create" | "remove"}`;
    })
  | (IpvsChange & { readonly kind: "virtual-server-update"; readonly before: VirtualServer })
  | (IpvsChange & { readonly kind: "real-server-update"; readonly before: RealServer })
);

export type RealServerChange = ServerChange & { readonly kind: `real-server-${string}` };

/** Deletes the UDP flows of a virtual server that nobody answers; of `selection.answeredBy` alone where it is given. */
export interface ConntrackDelete {
  readonly kind: "conntrack-delete";
  readonly key: string;
  readonly selection: FlowSelection;
}

/** One change. What it is about: `subjectOf` in `kinds/kinds.ts`. */
export type Change = { readonly reason: ChangeReason } & (
  | ModuleLoad
  | SysctlWrite
  | LinkChange
  | SetCreate
  | SetSwap
  | SetDestroy
  | EntryChange
  | FamilyRuleChange
  | ServerChange
  | AddressChange
  | ConntrackDelete
);

/** As counted in `kube_ipvs_kernel_changes_total`. */
export type ChangeKind = Change["kind"];

/** The changes that may be of this kind. */
export type ChangeOf<Kind extends ChangeKind> = Change extends infer Each
  ? Each extends { readonly kind: infer Own }
    ? [Extract<Own, Kind>] extends [never]
      ? never
      : Each
    : never
  : never;
