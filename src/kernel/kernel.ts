/**
 * The kernel as the reconciler uses it: one typed client per facility, with the types of `state/`. The real clients are
 * in the folders next to this file. `test/support/fake-kernel/` implements the same interfaces in memory, and one
 * contract suite runs against both.
 *
 * Rules for every client: creating an object that exists succeeds, except for virtual and real servers, whose creation
 * is rejected. Removing an object that does not exist succeeds. A list of changes is executed in order and does not
 * stop at a failure; the result identifies each failed change by its index. A rejected promise means that the outcome
 * of the whole request is unknown (after a timeout or ENOBUFS, the kernel may have executed it), so the caller must
 * observe again.
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
import type { ServerKey, VirtualServer, VirtualServerId } from "../state/virtual-server.ts";

export interface Kernel {
  readonly ipvs: Ipvs;
  readonly ipSets: IpSets;
  readonly link: DummyLink;
  /** Absent in a simulated kernel and in observe-only mode. */
  readonly tunnels?: TunnelLinks;
  readonly iptables: Iptables;
  /**
   * Calls back when other software has changed our tables. Returns a function that ends the watch. Present only if
   * rules are written with nf_tables, because iptables and ipset do not report changes.
   */
  readonly watchTables?: (listener: TablesListener) => () => void;
  /**
   * Present if rules are written with nf_tables. Keeps conntrack and NAT active in the kernel while this process runs,
   * even if other software deletes all rules. Otherwise, packets of masqueraded connections would leave the node with
   * the client's address, and the endpoint would reset the connection. Rejects before Linux 5.12.
   */
  readonly keepConntrack?: (family: IpFamily) => Promise<void>;
  /**
   * The unused iptables backends that may contain rules. Such rules still apply. Rejects if the iptables programs fail;
   * the next call tries again.
   */
  readonly unusedBackends?: () => Promise<readonly Iptables[]>;
  /**
   * The sets that are not in use: those of ipset if rules are written with nf_tables, and vice versa. Empty if the
   * kernel does not support them.
   */
  readonly otherSets?: IpSets;
  /** Absent if the kernel has no nftables, and in observe-only mode. */
  readonly nftTables?: NftTables;
  /** Absent if this kernel is a simulation. */
  readonly accounting?: Accounting;
  readonly conntrack: Conntrack;
  readonly sysctl: Sysctl;
  readonly modules: Modules;
}

/** A change that the kernel rejected. The other changes in the list were executed. */
export interface FailedChange {
  /** Index in the list that was passed. */
  readonly index: number;
  readonly error: Error;
}

/** `after` is the desired state. `before` is the object to remove. */
export type IpvsChange =
  | {
      readonly kind: "virtual-server-create" | "virtual-server-update";
      readonly after: VirtualServer;
    }
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

/** Cached real servers by virtual server key; undefined if none are cached. */
export type CachedRealServers = (key: ServerKey) => readonly RealServer[] | undefined;

/** IPVS connection timeouts in seconds. In a request, 0 keeps the kernel's value. */
export interface IpvsTimeouts {
  readonly tcpSeconds: number;
  readonly tcpFinSeconds: number;
  readonly udpSeconds: number;
}

/** Traffic of virtual and real servers. Read-only. */
export interface IpvsTraffic {
  /** Every virtual server with its counters, read with one dump. Third-party firewall marks are omitted. */
  listTraffic(): Promise<readonly VirtualServerTraffic[]>;
  /**
   * For each of these virtual servers, in the same order, the connections of all its real servers. Zero if the virtual
   * server is unknown.
   */
  sumConnections(ids: readonly VirtualServerId[]): Promise<readonly ConnectionCounts[]>;
  /** Whether the connection table has an established TCP or SCTP connection through one of these virtual servers. */
  hasEstablished(ids: readonly VirtualServerId[]): Promise<boolean>;
  /** For each of these virtual servers, in the same order, its real servers with their counters. */
  listRealServerTraffic(
    ids: readonly VirtualServerId[],
  ): Promise<readonly (readonly RealServerTraffic[])[]>;
}

/** IPVS, as the `ipvsadm` program uses it: generic netlink family IPVS. */
export interface Ipvs extends IpvsTraffic {
  /** Every virtual server, read with one dump. Third-party firewall marks are omitted. */
  listVirtualServers(): Promise<readonly VirtualServer[]>;
  /**
   * The given virtual servers that exist, read with one message each. The cost does not depend on how many other
   * virtual servers exist.
   */
  findVirtualServers(ids: readonly VirtualServerId[]): Promise<readonly VirtualServer[]>;
  /**
   * For each of these virtual servers, in the same order, its real servers. Empty if the virtual server is unknown. If
   * a list has the same real servers as the cached list, in any order, the cached object itself is returned.
   */
  readRealServers(
    ids: readonly VirtualServerId[],
    cached?: CachedRealServers,
  ): Promise<readonly (readonly RealServer[])[]>;
  /** Like {@link readRealServers}, with connection counts. */
  listRealServers(
    ids: readonly VirtualServerId[],
  ): Promise<readonly (readonly ObservedRealServer[])[]>;
  /**
   * Executes changes in order. Creating an existing server is rejected with EEXIST and leaves it unchanged, because a
   * third party may own it.
   */
  apply(changes: readonly IpvsChange[]): Promise<readonly FailedChange[]>;
  readTimeouts(): Promise<IpvsTimeouts>;
  writeTimeouts(timeouts: IpvsTimeouts): Promise<void>;
  /**
   * Checks whether the kernel supports `scheduler`, without affecting existing virtual servers. Loads its module if
   * allowed. The error says what is missing and what to do.
   */
  checkScheduler(scheduler: string, family: IpFamily): Promise<void>;
}

export interface EntryChange {
  readonly kind: "entry-add" | "entry-remove";
  readonly set: IpSet;
  readonly entry: SetEntry;
  /** The name of a Service that requests an added entry. Stored with the entry if the kernel facility supports it. */
  readonly comment?: string | undefined;
}

/** IP sets, as the `ipset` program uses them: nfnetlink subsystem 6. */
export interface IpSets {
  /** All sets of this network namespace, without entries. */
  listSets(): Promise<readonly ObservedIpSet[]>;
  /** The entries of one set as canonical text; empty if the set does not exist. */
  listEntries(set: IpSet): Promise<readonly SetEntry[]>;
  /** Creates a set. Succeeds if the set exists with the same parameters, and fails if its parameters differ. */
  create(set: IpSet): Promise<void>;
  /** Destroys a set by name. Succeeds if it does not exist. Fails with EBUSY (4100) if a rule refers to it. */
  destroy(name: string): Promise<void>;
  /** Exchanges the contents of two sets of the same type and family. Rules refer to a set by name. */
  swap(first: string, second: string): Promise<void>;
  /** Adds and removes entries in order, with at most 750 entries per message. */
  apply(changes: readonly EntryChange[]): Promise<readonly FailedChange[]>;
}

/** Adds an address to kube-ipvs0 or removes one from it. */
export interface AddressChange {
  readonly kind: "address-add" | "address-remove";
  readonly address: IpAddress;
}

/** An address of this node on any link. */
export interface NodeAddress {
  readonly address: IpAddress;
  readonly prefixLength: number;
  readonly linkIndex: number;
}

/** The dummy link that carries the virtual IPs, and the node's addresses: rtnetlink. */
export interface DummyLink {
  readonly name: string;
  /** The link's index; undefined if it does not exist. Throws if it is not a dummy link. */
  find(): Promise<{ readonly index: number } | undefined>;
  /** Creates the link if it does not exist, with kind dummy, state DOWN and transmit queue length 0. */
  ensure(): Promise<{ readonly index: number; readonly wasCreated: boolean }>;
  /** Removes the link with all its addresses, and our local routes. Succeeds if they do not exist. */
  remove(): Promise<void>;
  /** Every address of every link, both families. */
  listAddresses(): Promise<readonly NodeAddress[]>;
  /** The gateways in the main routing table of both families, without duplicates. */
  listGateways(): Promise<readonly IpAddress[]>;
  /**
   * Converts IPv4 virtual IPs that are not bound in the configured form (`VirtualAddresses`), and returns their number.
   * Each is bound in the configured form before the other form is removed. Until this is called, `listAddresses`
   * returns both forms.
   */
  removeOtherForm(): Promise<number>;
  /** Adds and removes /32 and /128 addresses on the link, or the equivalent local routes. */
  apply(changes: readonly AddressChange[]): Promise<readonly FailedChange[]>;
  /**
   * Calls back whenever a link, address or route of the node changes. Changes are batched, and no details are given.
   * Returns a function that ends the watch.
   */
  watch(onChange: () => void, onError: (error: Error) => void): () => void;
}

/** The links that receive packets which other nodes forward through tunnels: rtnetlink. */
export interface TunnelLinks {
  /**
   * Creates the family's link if it does not exist, and sets it up, with a loose reverse path filter. Then creates the
   * routing rule that delivers all its packets on this node. Rejects if a link with its name has another kind.
   */
  ensure(family: IpFamily): Promise<void>;
  /** Removes the link and its routing rule. Succeeds if they do not exist. */
  remove(family: IpFamily): Promise<void>;
  /** Names of other links that are up and receive the same kinds of packets, such as network plugins' links. */
  listOthers(): Promise<readonly string[]>;
}

/** A rule as printed by `iptables-save`. */
export interface ObservedRule {
  /** The canonical text after `-A CHAIN `. */
  readonly text: string;
}

export interface ObservedChain {
  readonly table: TableName;
  readonly name: string;
  readonly rules: readonly ObservedRule[];
  /** Present for a built-in chain that drops packets to which no rule applies. */
  readonly policy?: "DROP";
  /** Present for our base chain in nf_tables if other software disabled its table or changed its policy. */
  readonly isDisabled?: true;
}

export interface RulesScope {
  /** Selects the chains of this plan and the chains that contain its jumps. If undefined, all chains are read. */
  readonly planned?: RuleSet;
  /** If a plan is given, also returns all other chains that can be read. */
  readonly hasOthers?: true;
  /** If whole tables are read, also reads the raw and mangle tables. */
  readonly hasAllTables?: true;
}

export type RuleChange =
  /** Creates or empties the chain, then fills it. */
  | { readonly kind: "chain-write"; readonly chain: Chain }
  /** Empties and removes the chain. No rule may jump to it. */
  | { readonly kind: "chain-remove"; readonly table: TableName; readonly chainName: string }
  /** Inserts one of our rules at the top of a built-in chain, or removes it. */
  | { readonly kind: "jump-insert" | "jump-remove"; readonly jump: Jump };

export type IptablesBackend = "legacy" | "nft";

/** The result of a check of both iptables backends. */
export interface BackendFinding {
  /** The backend that the node's rules indicate. `nftables` means nf_tables without iptables. */
  readonly backend: IptablesBackend | "nftables";
  /** Why this backend was chosen, as text for the log. */
  readonly reason: string;
  /** Present if rules in the other backend may affect the same packets. */
  readonly warning?: string;
  /** iptables mode's chains in this backend, such as `nat KUBE-SEP-…`. Undefined if there are none. */
  readonly leftovers?: ReadonlyMap<IpFamily, readonly string[]>;
  /** Present if this backend contains chains of userspace mode. */
  readonly hasPortals?: true;
}

/**
 * Rules, written with nf_tables or with the iptables and ip6tables programs. Legacy tables have no stable netlink API.
 */
export interface Iptables {
  /** The backend in use; determined once at startup. */
  readonly backend: BackendFinding["backend"];
  /** The last finding that chose the backend in use. */
  readonly choice: BackendFinding;
  /** Checks both backends again. This client keeps its backend. Rejects under the same conditions as at startup. */
  checkBackend(): Promise<BackendFinding>;
  /**
   * Returns chains of the nat and filter tables, and of other tables in which the plan has chains. With a plan, only
   * the relevant chains are read, which saves most of the work if there are thousands of third-party rules. A chain
   * with native nftables rules cannot be read. With a plan, its rules are then the planned jumps found in it, each once
   * and in the planned order. Without a plan, the promise is rejected.
   */
  observe(family: IpFamily, scope?: RulesScope): Promise<readonly ObservedChain[]>;
  /**
   * Returns a number that changes whenever any program changes a nat or filter rule. Packet counters do not affect it.
   * Costs one read and starts no program. Undefined if currently unknown; the caller must then read the rules.
   */
  readGeneration(family: IpFamily): Promise<number | undefined>;
  /**
   * Runs `iptables-restore --noflush --counters` once for all tables. The changes to a table take effect completely or
   * not at all. With nf_tables, all changes are one transaction.
   */
  apply(family: IpFamily, changes: readonly RuleChange[]): Promise<void>;
  /** The canonical text of a rule after `-A CHAIN `, to compare with an observed rule. */
  render(family: IpFamily, rule: Rule): string;
  /** Parses the text after `-A CHAIN `. Undefined if the rule has a match or target that our rules never have. */
  parse(text: string): Rule | undefined;
  /** Whether the family's programs work on this node and, if not, why. */
  probe(family: IpFamily): Promise<{ readonly isSupported: boolean; readonly reason?: string }>;
}

/** A transaction that changed our tables. */
export interface TablesChange {
  /** The program that made the transaction, such as `nft (PID 4711)`. Undefined if notifications were lost. */
  readonly by?: string;
  /** Names of the sets whose elements the transaction changed. */
  readonly setNames?: ReadonlySet<string>;
}

export interface TablesListener {
  readonly onChange: (change: TablesChange) => void;
  readonly onError: (error: Error) => void;
}

/** Whole nftables tables: nfnetlink subsystem 10. */
export interface NftTables {
  has(family: IpFamily, name: string): Promise<boolean>;
  /** Removes a table and its contents. Succeeds if the table does not exist. */
  remove(family: IpFamily, name: string): Promise<void>;
}

/** Netfilter accounting counters, which rules refer to by name: nfnetlink subsystem 7, `nfacct`. */
export interface Accounting {
  /** Creates a counter. An existing counter keeps its counts. Rejects if the kernel does not support counters. */
  ensure(name: string): Promise<void>;
  has(name: string): Promise<boolean>;
}

/** Netfilter's connection tracking: nfnetlink subsystem 1. */
export interface Conntrack {
  /** All UDP flows of a family, or the selected ones. The kernel filters them if it can. */
  listUdpFlows(family: IpFamily, selection?: FlowSelection): Promise<readonly Flow[]>;
  /** Deletes exactly these flows. Succeeds if a flow no longer exists. Returns the number of deleted flows. */
  remove(flows: readonly Flow[]): Promise<number>;
}

/** Values under /proc/sys, addressed by path with slashes: `net/ipv4/vs/conntrack`. */
export interface Sysctl {
  /** The value's text without the newline. Undefined if the file does not exist. */
  read(path: string): string | undefined;
  /** Writes the value unless it is already set. Returns whether it was written. */
  ensure(path: string, value: string): boolean;
}

export interface Modules {
  /** True if the module is loaded or built in; undefined if unknown. */
  isAvailable(name: string): boolean | undefined;
  /** Whether modprobe would find the module; undefined if unknown. */
  isLoadable(name: string): boolean | undefined;
  /** Loads a module with modprobe. Succeeds if it is already loaded. The error says what is missing. */
  load(name: string): Promise<void>;
  /** The text of a loaded module's parameter; undefined if there is no such parameter. */
  readParameter(name: string, parameter: string): string | undefined;
  writeParameter(name: string, parameter: string, value: string): void;
}
