/**
 * iptables rules as values. Only `kernel/iptables/` converts them to and from text (render, parse). Matches are in
 * `iptables-save` order, so rendered text can be compared.
 */
import type { IpAddress } from "../base/ip.ts";
import type { IpSetType } from "./ip-set.ts";

/**
 * Most of our rules are in nat and filter. In mangle, we create only the rules for port ranges and tunnels, and
 * iptables mode's canary chain. In raw, we create nothing.
 */
export type TableName = "nat" | "filter" | "mangle" | "raw";

/** `ipencap` (4) and `ipv6` (41) are packets inside packets. iptables prints the names in /etc/protocols. */
export type MatchProtocol = "tcp" | "udp" | "sctp" | "ipencap" | "ipv6";

export type Match =
  /** `-s CIDR`; printed before all other matches. */
  | { readonly kind: "source"; readonly cidr: string; readonly isNegated: boolean }
  /** `-d CIDR`; printed after the source. */
  | { readonly kind: "destination"; readonly cidr: string; readonly isNegated: boolean }
  /** `-i NAME`, or `-i PREFIX+`; printed after source and destination. */
  | { readonly kind: "in-interface"; readonly name: string; readonly isNegated: boolean }
  /** `-p tcp`. */
  | { readonly kind: "protocol"; readonly protocol: MatchProtocol }
  /** `-p icmp -m icmp --icmp-type 8`, or the IPv6 equivalent. */
  | { readonly kind: "echo-request" }
  | { readonly kind: "comment"; readonly text: string }
  /**
   * `-m tcp --dport PORT`, or `--dport PORT:LAST`; without a port, only `-m tcp`, as `iptables-save` prints it before a
   * translation.
   */
  | {
      readonly kind: "port";
      readonly protocol: "tcp" | "udp" | "sctp";
      readonly destination?: number;
      /** The last port of a range that starts at `destination`. */
      readonly last?: number;
    }
  /** `-m statistic --mode random --probability P`. */
  | { readonly kind: "chance"; readonly probability: number }
  /** `-m recent`: the client was added to the list within this number of seconds. Older entries are removed. */
  | { readonly kind: "recent-check"; readonly list: string; readonly seconds: number }
  /** `-m recent`: adds the client to the list; always matches. */
  | { readonly kind: "recent-set"; readonly list: string }
  /** `-m nfacct --nfacct-name NAME`: counts packets; always matches. The counter must exist. */
  | { readonly kind: "accounting"; readonly counter: string }
  /** `-m mark --mark VALUE/MASK`. */
  | {
      readonly kind: "mark";
      readonly value: number;
      readonly mask: number;
      readonly isNegated: boolean;
    }
  /** `-m set --match-set NAME src,dst`. */
  | {
      readonly kind: "set";
      readonly name: string;
      readonly directions: readonly ("src" | "dst")[];
      /** The set's type. Undefined in a parsed rule. */
      readonly type?: IpSetType;
    }
  /** `-m conntrack --ctstate NEW,…`. */
  | {
      readonly kind: "conntrack-state";
      readonly states: readonly string[];
      readonly isNegated?: true;
    }
  /** `-m addrtype --dst-type LOCAL`. */
  | {
      readonly kind: "address-type";
      readonly end: "src" | "dst";
      readonly type: string;
      readonly isNegated: boolean;
    }
  /** `-m physdev --physdev-is-in`. */
  | { readonly kind: "physical-in"; readonly isNegated: boolean }
  /** `-m ipvs --vproto 6 --vaddr ADDRESS --vport PORT`; the address has no prefix length. */
  | {
      readonly kind: "ipvs";
      readonly protocolNumber: number;
      readonly address: string;
      readonly port: number;
    };

export type Target =
  | { readonly kind: "accept" }
  | { readonly kind: "drop" }
  | { readonly kind: "return" }
  /** Rejects with the family's default error, "port unreachable". */
  | { readonly kind: "reject" }
  | { readonly kind: "jump"; readonly chain: string }
  /** No target: the rule only counts packets, and the next rule is evaluated. */
  | { readonly kind: "none" }
  /** `DNAT --to-destination ADDRESS:PORT`. */
  | { readonly kind: "translate"; readonly address: IpAddress; readonly port: number }
  /** `REDIRECT --to-ports PORT`: sends the packet to a port on the node itself. */
  | { readonly kind: "redirect"; readonly port: number }
  /** `MARK --set-xmark VALUE/MASK`: bits of MASK are cleared, then VALUE is XORed in. */
  | { readonly kind: "xmark"; readonly value: number; readonly mask: number }
  | { readonly kind: "masquerade"; readonly isRandomFully: boolean };

export interface Rule {
  readonly matches: readonly Match[];
  readonly target: Target;
}

/** One of our chains with all its rules, in order. */
export interface Chain {
  readonly table: TableName;
  readonly name: string;
  readonly rules: readonly Rule[];
}

/** One of our rules in a built-in chain (INPUT, FORWARD …). */
export interface Jump {
  readonly table: TableName;
  /** The built-in chain. */
  readonly from: string;
  readonly rule: Rule;
}

/** All our chains and jumps for one family, in creation order. */
export interface RuleSet {
  readonly chains: readonly Chain[];
  /** Jumps in insertion order. Each is inserted at the beginning of its chain, so the last jump is the first rule. */
  readonly jumps: readonly Jump[];
  /** Only in iptables and userspace mode, where rules serve Services. A rejected rule only affects its own Service. */
  readonly ofServices?: {
    /** Chains that other software fills. They are created if missing, and never changed. */
    readonly others: readonly Chain[];
    /** Matches the names of Service chains, all in nat. Unplanned chains are removed. Undefined in userspace mode. */
    readonly own?: RegExp;
  };
  /** Identifies this plan. Undefined if the next plan must be compared in full. */
  readonly revision?: symbol;
  /** All differences from an earlier plan with the same jumps. Other chains need not be compared. */
  readonly changes?: RuleSetChanges;
}

export interface RuleSetChanges {
  /** The revision of the earlier plan. */
  readonly since: symbol;
  /** Planned chains that are new or different. */
  readonly chains: readonly Chain[];
  /** Chains that are no longer planned. */
  readonly gone: readonly ChainKey[];
}

export function isTableName(text: string): text is TableName {
  return ["nat", "filter", "mangle", "raw"].includes(text);
}

/** For example: `nat KUBE-SERVICES`. */
export type ChainKey = `${TableName} ${string}`;

export function chainKey(table: TableName, name: string): ChainKey {
  return `${table} ${name}`;
}
