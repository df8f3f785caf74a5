/**
 * nftables rules, as the expressions that the kernel evaluates. Registers are offsets in bytes. Numbers are from
 * linux/netfilter/nf_tables.h.
 */

/** The source of a value that a rule loads. `network` and `transport` are the packet's headers. */
export type NftSource =
  | { readonly from: "meta" | "ct"; readonly key: number }
  | {
      readonly from: "network" | "transport";
      readonly offset: number;
      readonly length: number;
    }
  | { readonly from: "fib"; readonly result: number; readonly flags: number };

export type NftVerdict =
  | { readonly kind: "accept" | "drop" | "reject" | "return" | "masquerade" }
  | { readonly kind: "jump" | "goto"; readonly chain: string };

export type NftExpression =
  | { readonly kind: "load"; readonly source: NftSource; readonly register: number }
  | {
      readonly kind: "mask";
      readonly from: number;
      readonly register: number;
      readonly mask: Uint8Array;
      readonly xor: Uint8Array;
    }
  | {
      readonly kind: "compare";
      readonly register: number;
      readonly operator: "==" | "!=" | "<" | "<=" | ">" | ">=";
      readonly value: Uint8Array;
    }
  | {
      readonly kind: "range";
      readonly register: number;
      readonly isNegated: boolean;
      readonly first: Uint8Array;
      readonly last: Uint8Array;
    }
  /** If `hasVerdict`, the element's verdict applies. */
  | {
      readonly kind: "lookup";
      readonly set: string;
      readonly register: number;
      readonly isNegated: boolean;
      readonly hasVerdict: boolean;
    }
  | { readonly kind: "verdict"; readonly verdict: NftVerdict }
  /** An expression that does not affect the verdict, such as a counter. */
  | { readonly kind: "effect"; readonly name: string }
  /** An expression that kube-ipvs does not evaluate. If `isEnd` is true, it ends the evaluation, as `dnat` does. */
  | { readonly kind: "unknown"; readonly name: string; readonly isEnd: boolean };

export interface NftRule {
  /** In the notation of `nft`. */
  readonly text: string;
  readonly expressions: readonly NftExpression[];
}

export interface NftElement {
  readonly key: Uint8Array;
  /** The last key of the interval, if the set stores it in the element. */
  readonly end?: Uint8Array;
  /** Whether the element only marks the end of the preceding interval. */
  readonly isEnd: boolean;
  readonly verdict?: NftVerdict;
}

export interface NftSet {
  readonly keyLength: number;
  readonly isInterval: boolean;
  readonly elements: readonly NftElement[];
}

/**
 * Hooks of the `bridge` family are INGRESS for packets that enter a bridge, EGRESS for those that leave it, and FORWARD
 * between its ports.
 */
export type NftHook =
  | "INGRESS"
  | "PREROUTING"
  | "INPUT"
  | "FORWARD"
  | "OUTPUT"
  | "POSTROUTING"
  | "EGRESS";

export interface NftBaseChain {
  /** Family and name, for example `inet firewalld`. */
  readonly table: string;
  readonly name: string;
  readonly hook: NftHook;
  readonly priority: number;
  readonly isDropPolicy: boolean;
  /** Whether only the first packet of a connection traverses the chain (type `nat`). */
  readonly isNat?: boolean;
  /** The links of an INGRESS or EGRESS chain. Undefined for other hooks and in the `bridge` family. */
  readonly devices?: readonly string[];
  /** Whether the chain belongs to the `bridge` family. */
  readonly isBridge?: boolean;
}

/** Other software's rules that packets of one family traverse. */
export interface NftRuleset {
  /** Sorted by priority. */
  readonly baseChains: readonly NftBaseChain[];
  readonly chains: ReadonlyMap<NftKey, readonly NftRule[]>;
  readonly sets: ReadonlyMap<NftKey, NftSet>;
}

export const noNftRules: NftRuleset = { baseChains: [], chains: new Map(), sets: new Map() };

/** Identifies a chain or set: `inet firewalld filter_INPUT`. */
export type NftKey = string & { readonly __brand: "NftKey" };

export function nftKey(table: string, name: string): NftKey {
  return `${table} ${name}` as NftKey;
}
