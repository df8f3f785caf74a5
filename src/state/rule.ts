/**
 * iptables rules as values. Text is made and read only in `kernel/iptables/` (render, parse).
 * Matches stand in the order in which `iptables-save` prints them, so that rendered text compares equal.
 */
import type { IpAddress } from "../base/ip.ts";

/** Rules of ours stand in nat and filter; mangle holds a canary chain of iptables mode, and nothing else; raw holds none. */
export type TableName = "nat" | "filter" | "mangle" | "raw";

export type Match =
  /** `-s CIDR`; printed first. */
  | { readonly kind: "source"; readonly cidr: string; readonly isNegated: boolean }
  /** `-d CIDR`; printed behind the source. */
  | { readonly kind: "destination"; readonly cidr: string; readonly isNegated: boolean }
  /** `-i NAME`, or `-i PREFIX+`; printed after source and destination. */
  | { readonly kind: "in-interface"; readonly name: string; readonly isNegated: boolean }
  /** `-p tcp`. */
  | { readonly kind: "protocol"; readonly protocol: "tcp" | "udp" | "sctp" }
  /** `-p icmp -m icmp --icmp-type 8`, or the like of IPv6. */
  | { readonly kind: "echo-request" }
  | { readonly kind: "comment"; readonly text: string }
  /** `-m tcp --dport PORT`; without a port only `-m tcp`, as `iptables-save` prints it before a translation. */
  | {
      readonly kind: "port";
      readonly protocol: "tcp" | "udp" | "sctp";
      readonly destination?: number;
    }
  /** `-m statistic --mode random --probability P`. */
  | { readonly kind: "chance"; readonly probability: number }
  /** `-m recent`: the client was entered into the list less than so long ago, older entries go. */
  | { readonly kind: "recent-check"; readonly list: string; readonly seconds: number }
  /** `-m recent`: enters the client into the list; matches always. */
  | { readonly kind: "recent-set"; readonly list: string }
  /** `-m nfacct --nfacct-name NAME`: counts; matches always. The counter must exist. */
  | { readonly kind: "accounting"; readonly counter: string }
  /** `-m mark --mark VALUE/MASK`, numbers. */
  | {
      readonly kind: "mark";
      readonly value: number;
      readonly mask: number;
      readonly isNegated: boolean;
    }
  /** `-m set --match-set NAME src,dst`. */
  | { readonly kind: "set"; readonly name: string; readonly directions: readonly ("src" | "dst")[] }
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
  /** `-m ipvs --vproto 6 --vaddr ADDRESS --vport PORT`; prefix lengths of hosts are printed as iptables does. */
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
  /** The family's default, port unreachable. */
  | { readonly kind: "reject" }
  | { readonly kind: "jump"; readonly chain: string }
  /** No target: the rule counts, and the next one has its turn. */
  | { readonly kind: "none" }
  /** `DNAT --to-destination ADDRESS:PORT`. */
  | { readonly kind: "translate"; readonly address: IpAddress; readonly port: number }
  /** `REDIRECT --to-ports PORT`: to the node itself. */
  | { readonly kind: "redirect"; readonly port: number }
  /** `MARK --set-xmark VALUE/MASK`: bits of MASK are cleared, then VALUE is XORed in. */
  | { readonly kind: "xmark"; readonly value: number; readonly mask: number }
  | { readonly kind: "masquerade"; readonly isRandomFully: boolean };

export interface Rule {
  readonly matches: readonly Match[];
  readonly target: Target;
}

/** A chain of ours with all its rules, in order. */
export interface Chain {
  readonly table: TableName;
  readonly name: string;
  readonly rules: readonly Rule[];
}

/** A rule of ours in a chain that is not ours (INPUT, FORWARD …). */
export interface Jump {
  readonly table: TableName;
  /** The built-in chain. */
  readonly from: string;
  readonly rule: Rule;
}

/** Everything of ours in one family's iptables. Chains and jumps in creation order. */
export interface RuleSet {
  readonly chains: readonly Chain[];
  /** In insertion order: each goes to the first place of its chain, so the last inserted stands first. */
  readonly jumps: readonly Jump[];
}

/** `nat KUBE-SERVICES`. */
export function chainKey(table: TableName, name: string): string {
  return `${table} ${name}`;
}
