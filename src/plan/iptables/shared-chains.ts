import type { Rule } from "../../state/rule.ts";

/** Chains in which every service port may have rules. */
export const sharedChains = [
  { key: "nat KUBE-SERVICES", table: "nat", name: "KUBE-SERVICES" },
  { key: "nat KUBE-NODEPORTS", table: "nat", name: "KUBE-NODEPORTS" },
  { key: "filter KUBE-SERVICES", table: "filter", name: "KUBE-SERVICES" },
  { key: "filter KUBE-EXTERNAL-SERVICES", table: "filter", name: "KUBE-EXTERNAL-SERVICES" },
  { key: "filter KUBE-NODEPORTS", table: "filter", name: "KUBE-NODEPORTS" },
  { key: "filter KUBE-PROXY-FIREWALL", table: "filter", name: "KUBE-PROXY-FIREWALL" },
] as const;

export type SharedChain = (typeof sharedChains)[number];
export type SharedChainKey = SharedChain["key"];

/** A rule of a service port in a chain that it shares with others. */
export interface SharedRule {
  readonly chain: SharedChainKey;
  readonly rule: Rule;
  /** Key of the address and port that it is about: the rule counts only for who has that. If undefined, it always counts. */
  readonly claim?: string;
}
