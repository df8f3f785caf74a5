/**
 * The kernel as the reconciler sees it: one typed client per facility, in the words of `state/`.
 * Real clients live in the folders beside this file; `test/support/fake-kernel/` implements the same
 * interfaces in memory and one contract suite is run against both.
 *
 * Rules for every client: creating what exists and removing what is absent is success. A list of
 * changes is carried out in order and never stops at a failure; the result names each failed change by
 * its index. A rejected promise means that nothing is known about the whole request (timeout, ENOBUFS:
 * the kernel may have executed it): observe again.
 */
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Flow, FlowSelection } from "../state/flow.ts";
import type { IpSet, ObservedIpSet } from "../state/ip-set.ts";
import type { ObservedRealServer, RealServer, RealServerId } from "../state/real-server.ts";
import type { Chain, Jump, Rule, RuleSet, TableName } from "../state/rule.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type {
  ConnectionCounts,
  RealServerTraffic,
  VirtualServerTraffic,
} from "../state/traffic.ts";
import type { VirtualServer, VirtualServerId } from "../state/virtual-server.ts";

export interface Kernel {
  readonly ipvs: Ipvs;
  readonly ipSets: IpSets;
  readonly link: DummyLink;
  readonly iptables: Iptables;
  /** The backend of iptables that is not in use, where it holds anything; its rules are in force all the same. */
  readonly unusedBackend?: Iptables;
  /** Absent where the kernel has no nftables, or is only observed. */
  readonly nftTables?: NftTables;
  /** Absent where the kernel is only imitated. */
  readonly accounting?: Accounting;
  readonly conntrack: Conntrack;
  readonly sysctl: Sysctl;
  readonly modules: Modules;
}

/** One change of a list that the kernel refused; the others were carried out. */
export interface FailedChange {
  /** Position in the list that was given. */
  readonly index: number;
  readonly error: Error;
}

/** `after`: as it is to be; `before`: what is to go. */
export type IpvsChange =
  | {
      readonly kind: "virtual-server-create";
      readonly after: VirtualServer;
      /** One that exists is refused with EEXIST, and left as it is: a third party may have made it meanwhile. */
      readonly mustBeNew?: boolean;
    }
  | { readonly kind: "virtual-server-update"; readonly after: VirtualServer }
  | { readonly kind: "virtual-server-remove"; readonly before: VirtualServerId }
  | {
      readonly kind: "real-server-create" | "real-server-update";
      readonly virtualServer: VirtualServerId;
      readonly after: RealServer;
    }
  | {
      readonly kind: "real-server-remove";
      readonly virtualServer: VirtualServerId;
      readonly before: RealServerId;
    };

/** Cached real servers by the key of their virtual server; undefined: none are cached. */
export type CachedRealServers = (key: string) => readonly RealServer[] | undefined;

/** IPVS connection timeouts in seconds; 0 in a request keeps the kernel's value. */
export interface IpvsTimeouts {
  readonly tcpSeconds: number;
  readonly tcpFinSeconds: number;
  readonly udpSeconds: number;
}

/** What goes through virtual and real servers; reads only. */
export interface IpvsTraffic {
  /** Every virtual server with what it counted, by one dump; firewall marks are left out. */
  listTraffic(): Promise<readonly VirtualServerTraffic[]>;
  /** Connections of all real servers of each of these virtual servers, in the same order; an unknown one has none. */
  sumConnections(ids: readonly VirtualServerId[]): Promise<readonly ConnectionCounts[]>;
  /** Whether a TCP or SCTP connection through one of these virtual servers is established, by the connection table. */
  hasEstablished(ids: readonly VirtualServerId[]): Promise<boolean>;
  /** Real servers of each of these virtual servers with what they counted, in the same order. */
  listRealServerTraffic(
    ids: readonly VirtualServerId[],
  ): Promise<readonly (readonly RealServerTraffic[])[]>;
}

/** `ipvsadm`'s part of the kernel: generic netlink family IPVS. */
export interface Ipvs extends IpvsTraffic {
  /**
   * Every virtual server, by one dump. Services without an address (firewall marks) are not ours and are left out.
   */
  listVirtualServers(): Promise<readonly VirtualServer[]>;
  /** Those of the named virtual servers that are there, by a message for each: costs nothing for the others. */
  findVirtualServers(ids: readonly VirtualServerId[]): Promise<readonly VirtualServer[]>;
  /**
   * Real servers of the named virtual servers, in the same order; an unknown one has none. Structural sharing: a
   * list that equals the cached one, in any order, is returned as that very object.
   */
  readRealServers(
    ids: readonly VirtualServerId[],
    cached?: CachedRealServers,
  ): Promise<readonly (readonly RealServer[])[]>;
  /** As {@link readRealServers}, with the counts of connections. */
  listRealServers(
    ids: readonly VirtualServerId[],
  ): Promise<readonly (readonly ObservedRealServer[])[]>;
  /** Carries out changes in order. Create of an existing one updates it, unless it must be new. */
  apply(changes: readonly IpvsChange[]): Promise<readonly FailedChange[]>;
  readTimeouts(): Promise<IpvsTimeouts>;
  writeTimeouts(timeouts: IpvsTimeouts): Promise<void>;
  /**
   * Finds out whether the kernel can schedule with `scheduler`, without touching existing virtual
   * servers. Loads its module where that is allowed. An error says what is missing and what to do.
   */
  checkScheduler(scheduler: string, family: IpFamily): Promise<void>;
}

export interface EntryChange {
  readonly kind: "entry-add" | "entry-remove";
  readonly set: IpSet;
  readonly entry: SetEntry;
}

/** `ipset`'s part of the kernel: nfnetlink subsystem 6. */
export interface IpSets {
  /** All sets of this network namespace, headers only. */
  listSets(): Promise<readonly ObservedIpSet[]>;
  /** The entries of one set in canonical text; an absent set has none. */
  listEntries(set: IpSet): Promise<readonly SetEntry[]>;
  /** Creates a set; one with the same parameters is success, with others an error. */
  create(set: IpSet): Promise<void>;
  /** Destroys a set by name; absent is success. EBUSY (4100) when a rule refers to it. */
  destroy(name: string): Promise<void>;
  /** Exchanges the contents of two sets of one type and family; rules follow the name. */
  swap(first: string, second: string): Promise<void>;
  /** Adds and removes entries in order, in batches of at most 1,000 per message. */
  apply(changes: readonly EntryChange[]): Promise<readonly FailedChange[]>;
}

/** To or from kube-ipvs0. */
export interface AddressChange {
  readonly kind: "address-add" | "address-remove";
  readonly address: IpAddress;
}

/** An address of this node, on whatever link. */
export interface NodeAddress {
  readonly address: IpAddress;
  readonly prefixLength: number;
  readonly linkIndex: number;
}

/** The dummy link that carries the virtual IPs, and the node's addresses: rtnetlink. */
export interface DummyLink {
  readonly name: string;
  /** The link's index, or undefined when there is none. Throws when it is not of kind dummy. */
  find(): Promise<{ readonly index: number } | undefined>;
  /** Creates the link (kind dummy, DOWN, transmit queue length 0) where it is missing. */
  ensure(): Promise<{ readonly index: number; readonly wasCreated: boolean }>;
  /** Removes the link with all its addresses, and local routes of ours; absent is success. */
  remove(): Promise<void>;
  /** Every address of every link, both families. */
  listAddresses(): Promise<readonly NodeAddress[]>;
  /** Gateways in the main routing table, each once, both families. */
  listGateways(): Promise<readonly IpAddress[]>;
  /**
   * Takes away the IPv4 virtual IPs that are bound in the form that is not asked for (`VirtualAddresses`), and gives their
   * number. Addresses become routes first; routes are for when all that is planned is bound as addresses.
   */
  removeOtherForm(): Promise<number>;
  /** Adds and removes /32 and /128 addresses on the link, or local routes that lead there. */
  apply(changes: readonly AddressChange[]): Promise<readonly FailedChange[]>;
  /** Calls back (coalesced, with no detail) whenever a link or address of the node changed. Returns the stop. */
  watch(onChange: () => void, onError: (error: Error) => void): () => void;
}

/** The way of packets to an address. */
export interface Route {
  /** The address is this node's own. */
  readonly isLocal: boolean;
  /** The link through which they leave. */
  readonly link: string;
  readonly isBridge: boolean;
  /** What they have as their source, unless the program that sends them has chosen one. */
  readonly source?: IpAddress;
}

/** `ip route get`: rtnetlink. */
export interface Routes {
  /** Undefined: no packet gets there. */
  find(address: IpAddress): Promise<Route | undefined>;
}

/** A rule as `iptables-save` printed it. */
export interface ObservedRule {
  /** Canonical text behind `-A CHAIN `. */
  readonly text: string;
}

export interface ObservedChain {
  readonly table: TableName;
  readonly name: string;
  readonly rules: readonly ObservedRule[];
  /** Of a built-in chain that drops what no rule decides. */
  readonly policy?: "DROP";
}

/** What an observation of rules is to give. */
export interface RulesScope {
  /** Chains of this plan, and those that its jumps stand in; absent: all chains. */
  readonly planned?: RuleSet;
  /** With a plan: all the other chains, too, where they can be read. */
  readonly hasOthers?: true;
  /** Tables raw and mangle, too, where whole tables are read. */
  readonly hasAllTables?: true;
}

export type RuleChange =
  /** Creates the chain or empties it, then fills it. */
  | { readonly kind: "chain-write"; readonly chain: Chain }
  /** The chain must be unreferenced; it is emptied first. */
  | { readonly kind: "chain-remove"; readonly table: TableName; readonly chainName: string }
  /** A rule of ours in a built-in chain: inserted at the first place, or taken out. */
  | { readonly kind: "jump-insert" | "jump-remove"; readonly jump: Jump };

/** What a check of both backends of iptables found. */
export interface BackendFinding {
  /** The one that the node uses, as far as its rules show. */
  readonly backend: "legacy" | "nft";
  /** Why that one, in words for the log. */
  readonly reason: string;
  /** Present when rules in the other one may decide over the same packets. */
  readonly warning?: string;
  /** Chains of iptables mode that were found there: `nat KUBE-SEP-…`. Undefined if there are none. */
  readonly leftovers?: ReadonlyMap<IpFamily, readonly string[]>;
  /** Chains of userspace mode were found there. */
  readonly hasPortals?: true;
}

/** iptables and ip6tables, through their own programs: there is no stable netlink API for legacy tables. */
export interface Iptables {
  /** The backend in use; found once at start. */
  readonly backend: BackendFinding["backend"];
  /** What the last check found that spoke for the backend in use. */
  readonly choice: BackendFinding;
  /** Checks both backends again. This client keeps its backend. Rejects as at start. */
  checkBackend(): Promise<BackendFinding>;
  /**
   * Chains of the nat and filter tables, and of those the plan has chains in; with a plan only those that it is about, which saves most of the work beside
   * thousands of rules of others. A chain with native nftables rules cannot be read: of it, the planned jumps that
   * stand there are given, each once and in the planned order, and without a plan the promise is rejected.
   */
  observe(family: IpFamily, scope?: RulesScope): Promise<readonly ObservedChain[]>;
  /**
   * Reads a family's rules now, beside what else a start does: the next observation takes them, unless a rule changed
   * meanwhile.
   */
  readAhead(family: IpFamily): void;
  /**
   * A number that is another one after any program changed any rule of nat or filter, counters left out. It costs
   * one read, and no program. Undefined: unknown for now, read the rules.
   */
  readGeneration(family: IpFamily): Promise<number | undefined>;
  /** One `iptables-restore --noflush --counters` with all tables. A table is changed wholly or not at all. */
  apply(family: IpFamily, changes: readonly RuleChange[]): Promise<void>;
  /** The canonical text of a rule behind `-A CHAIN `, for comparing with an observed one. */
  render(family: IpFamily, rule: Rule): string;
  /** The rule behind `-A CHAIN `; undefined: it has a match or target that rules of ours do not have. */
  parse(text: string): Rule | undefined;
  /** Whether the family's programs work here; the reason when they do not. */
  probe(family: IpFamily): Promise<{ readonly isSupported: boolean; readonly reason?: string }>;
}

/** Whole tables of nftables: nfnetlink subsystem 10. Nothing of ours is there. */
export interface NftTables {
  has(family: IpFamily, name: string): Promise<boolean>;
  /** Removes a table with all that is in it; absent is success. */
  remove(family: IpFamily, name: string): Promise<void>;
}

/** Netfilter's counters that rules name: nfnetlink subsystem 7, `nfacct`. */
export interface Accounting {
  /** Makes a counter; one that is there goes on counting. Rejects where the kernel has none. */
  ensure(name: string): Promise<void>;
  has(name: string): Promise<boolean>;
}

/** Netfilter's connection tracking: nfnetlink subsystem 1. */
export interface Conntrack {
  /** All UDP flows of a family, or those that are selected; the kernel leaves the others out if it can. */
  listUdpFlows(family: IpFamily, selection?: FlowSelection): Promise<readonly Flow[]>;
  /** Deletes exactly these flows; one that is gone is success. Returns how many were deleted. */
  remove(flows: readonly Flow[]): Promise<number>;
}

/** Values under /proc/sys, by slash path: `net/ipv4/vs/conntrack`. */
export interface Sysctl {
  /** The value's text without the line end; undefined when there is no such file. */
  read(path: string): string | undefined;
  /** Writes unless the value is already that. Says whether it wrote. */
  ensure(path: string, value: string): boolean;
}

export interface Modules {
  /** True when a module is loaded or built in; undefined when that is unknown. */
  isAvailable(name: string): boolean | undefined;
  /** Whether modprobe would find it; undefined when that is unknown. */
  isLoadable(name: string): boolean | undefined;
  /** Loads a module by modprobe; success when it is loaded already. The error says what is missing. */
  load(name: string): Promise<void>;
  /** The text of a loaded module's parameter; undefined where there is none. */
  readParameter(name: string, parameter: string): string | undefined;
  writeParameter(name: string, parameter: string, value: string): void;
}
