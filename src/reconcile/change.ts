/** Changes of kernel state as values: what a sync, a dry run and a clean-up are made of. No behaviour, no I/O. */
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { FlowSelection } from "../state/flow.ts";
import type { IpSet } from "../state/ip-set.ts";
import type { RealServer, RealServerId } from "../state/real-server.ts";
import type { Chain, Jump, TableName } from "../state/rule.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type { VirtualServer, VirtualServerId } from "../state/virtual-server.ts";

/** Why a change is made; the same codes in dry runs, logs and tests. */
export type ChangeReason =
  /** Wanted and not there. */
  | "missing"
  /** There, with other parameters than it should have. */
  | "differs"
  /** There, ours, and nobody wants it any more. */
  | "unwanted"
  /** The endpoint left: no new connections, the present ones go on. */
  | "drain-start"
  /** The drain ended: no connection is left, its deadline passed, or the endpoint stopped serving. */
  | "drain-end"
  /** The capacity of a set must grow or may shrink. */
  | "resize"
  /** A set of our name whose type or family does not fit. */
  | "incompatible-set"
  /** Rules are led to a stand-in while a set is recreated. */
  | "redirect"
  /** Left behind by a set that was recreated or resized. */
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

/** Exchanges the contents of two sets: rules follow the name. */
export interface SetSwap {
  readonly kind: "set-swap";
  readonly set: IpSet;
  readonly temporary: IpSet;
}

export interface SetDestroy {
  readonly kind: "set-destroy";
  readonly setName: string;
}

export interface EntryChange {
  readonly kind: "entry-add" | "entry-remove";
  readonly set: IpSet;
  readonly entry: SetEntry;
}

/** Creates the chain or empties it, then fills it. Rule texts as `iptables-save` prints them; absent: no such chain. */
export interface ChainWrite {
  readonly kind: "chain-write";
  readonly family: IpFamily;
  readonly chain: Chain;
  readonly before: readonly string[] | undefined;
}

export interface ChainRemove {
  readonly kind: "chain-remove";
  readonly family: IpFamily;
  readonly table: TableName;
  readonly chainName: string;
}

/** A rule of ours in a built-in chain: inserted at the first place, or taken out. */
export interface JumpChange {
  readonly kind: "jump-insert" | "jump-remove";
  readonly family: IpFamily;
  readonly jump: Jump;
}

export type RuleChange = ChainWrite | ChainRemove | JumpChange;

export interface VirtualServerCreate {
  readonly kind: "virtual-server-create";
  readonly key: string;
  readonly after: VirtualServer;
  /** One that a third party made meanwhile is not to be overwritten. */
  readonly mustBeNew: boolean;
}

export interface VirtualServerUpdate {
  readonly kind: "virtual-server-update";
  readonly key: string;
  readonly before: VirtualServer;
  readonly after: VirtualServer;
}

export interface VirtualServerRemove {
  readonly kind: "virtual-server-remove";
  readonly key: string;
  readonly before: VirtualServer;
}

export interface RealServerCreate {
  readonly kind: "real-server-create";
  /** Of its virtual server. */
  readonly key: string;
  readonly virtualServer: VirtualServerId;
  readonly after: RealServer;
}

export interface RealServerUpdate {
  readonly kind: "real-server-update";
  readonly key: string;
  readonly virtualServer: VirtualServerId;
  readonly before: RealServer;
  readonly after: RealServer;
}

export interface RealServerRemove {
  readonly kind: "real-server-remove";
  readonly key: string;
  readonly virtualServer: VirtualServerId;
  readonly before: RealServerId;
}

export type RealServerChange = RealServerCreate | RealServerUpdate | RealServerRemove;
export type ServerChange =
  | VirtualServerCreate
  | VirtualServerUpdate
  | VirtualServerRemove
  | RealServerChange;

/** To or from kube-ipvs0. */
export interface AddressBinding {
  readonly kind: "address-add" | "address-remove";
  readonly address: IpAddress;
}

/** Deletes the UDP flows of a virtual server that nobody answers; of `selection.answeredBy` alone where it is given. */
export interface ConntrackDelete {
  readonly kind: "conntrack-delete";
  readonly key: string;
  readonly selection: FlowSelection;
}

/** One change. Identity of what it is about: {@link subjectOf}. */
export type Change = { readonly reason: ChangeReason } & (
  | ModuleLoad
  | SysctlWrite
  | LinkChange
  | SetCreate
  | SetSwap
  | SetDestroy
  | EntryChange
  | RuleChange
  | ServerChange
  | AddressBinding
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
