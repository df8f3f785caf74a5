import type { Rule } from "../../state/rule.ts";
import type { ServerKey } from "../../state/virtual-server.ts";

/** Chains that contain rules for many service ports. */
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

/** A rule of a service port in a shared chain. */
export interface SharedRule {
  readonly chain: SharedChainKey;
  readonly rule: Rule;
  /**
   * Key of the address and port that the rule matches. The rule is written only if its service port owns them. If
   * undefined, it is always written.
   */
  readonly claim?: ServerKey;
}
