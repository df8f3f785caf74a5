/** Changes to kernel state as plain values, used by syncs, dry runs and clean-up. No behavior, no I/O. */
import type { IpFamily } from "../base/ip.ts";
import type { AddressChange, EntryChange, IpvsChange, RuleChange } from "../kernel/kernel.ts";
import type { FlowSelection } from "../state/flow.ts";
import type { IpSet } from "../state/ip-set.ts";
import type { RealServer } from "../state/real-server.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type { ServerKey, VirtualServer } from "../state/virtual-server.ts";

/** Why a change is made. Dry runs, logs and tests use the same codes. */
export type ChangeReason =
  /** Desired but does not exist. */
  | "missing"
  /** Exists with parameters that differ from the desired ones. */
  | "differs"
  /** Exists and is ours, but is no longer desired. */
  | "unwanted"
  /** Exists and admits more than desired. */
  | "tightens"
  /** Stops blocking packets. Made only after all objects that depend on the restriction have been removed. */
  | "loosens"
  /** Exists and is desired, but a `lifetime` dependency is missing. */
  | "withheld"
  /** The endpoint was removed. It receives no new connections, but existing ones continue. */
  | "drain-start"
  /** The drain ended: no connections are left, the deadline passed, or the endpoint stopped serving. */
  | "drain-end"
  /** A set's capacity must grow, or it can shrink. */
  | "resize"
  /** A set with one of our names has an incompatible type or family. */
  | "incompatible-set"
  /** Left over from a set replacement. */
  | "leftover"
  /** UDP conntrack entries lead to a removed real server, or to no real server. */
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

/** Replaces a set with one that has different parameters and the same entries. Rules refer to sets by name. */
export interface SetSwap {
  readonly kind: "set-swap";
  readonly set: IpSet;
  readonly entries: ReadonlySet<SetEntry>;
}

export interface SetDestroy {
  readonly kind: "set-destroy";
  readonly setName: string;
  /** Why the set cannot be destroyed, if this is known without sending a request. */
  readonly rejection?: Error;
}

/**
 * A change of one family's rules. `before` contains rule texts as printed by `iptables-save`; it is undefined if the
 * chain does not exist or its rules are unknown.
 */
export type FamilyRuleChange = { readonly family: IpFamily } & (
  | (RuleChange & { readonly kind: "chain-write"; readonly before: readonly string[] | undefined })
  | (RuleChange & { readonly kind: "chain-remove" | "jump-insert" | "jump-remove" })
);

export type ServerChange = { readonly key: ServerKey } & (
  | (IpvsChange & {
      readonly kind: `${"virtual" | "real"}-server-${"create" | "remove"}`;
    })
  | (IpvsChange & { readonly kind: "virtual-server-update"; readonly before: VirtualServer })
  | (IpvsChange & { readonly kind: "real-server-update"; readonly before: RealServer })
);

export type RealServerChange = ServerChange & { readonly kind: `real-server-${string}` };

/**
 * Deletes a virtual server's UDP flows to real servers that no longer exist. With `selection.answeredBy`, deletes only
 * flows to that real server.
 */
export interface ConntrackDelete {
  readonly kind: "conntrack-delete";
  readonly key: ServerKey;
  readonly selection: FlowSelection;
}

/** One change. `subjectOf` in `kinds/kinds.ts` returns its subject. */
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

/** The kind of a change, which is also the label value in `kube_ipvs_kernel_changes_total`. */
export type ChangeKind = Change["kind"];

/** The change types that can have this kind. */
export type ChangeOf<Kind extends ChangeKind> = Change extends infer Each
  ? Each extends { readonly kind: infer Own }
    ? [Extract<Own, Kind>] extends [never]
      ? never
      : Each
    : never
  : never;
