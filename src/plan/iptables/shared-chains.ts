import type { Rule, TableName } from "../../state/rule.ts";

/** Chains in which every service port may have rules. */
export type SharedChainKey =
  | "nat KUBE-SERVICES"
  | "nat KUBE-NODEPORTS"
  | "filter KUBE-SERVICES"
  | "filter KUBE-EXTERNAL-SERVICES"
  | "filter KUBE-NODEPORTS"
  | "filter KUBE-PROXY-FIREWALL";

export interface SharedChain {
  readonly key: SharedChainKey;
  readonly table: TableName;
  readonly name: string;
}

export const sharedChains: readonly SharedChain[] = [
  { key: "nat KUBE-SERVICES", table: "nat", name: "KUBE-SERVICES" },
  { key: "nat KUBE-NODEPORTS", table: "nat", name: "KUBE-NODEPORTS" },
  { key: "filter KUBE-SERVICES", table: "filter", name: "KUBE-SERVICES" },
  { key: "filter KUBE-EXTERNAL-SERVICES", table: "filter", name: "KUBE-EXTERNAL-SERVICES" },
  { key: "filter KUBE-NODEPORTS", table: "filter", name: "KUBE-NODEPORTS" },
  { key: "filter KUBE-PROXY-FIREWALL", table: "filter", name: "KUBE-PROXY-FIREWALL" },
];

/**
 * Who has written an address decides before age does, as in IPVS mode: cluster IPs and node ports come from the API
 * server, load-balancer IPs from a controller, external IPs from whoever may edit a Service.
 */
export const ranks = { cluster: 0, loadBalancer: 1, external: 2 } as const;

/** A rule of a service port in a chain that it shares with others. */
export interface SharedRule {
  readonly chain: SharedChainKey;
  /** One of {@link ranks}: rules of a lower one stand above those of all service ports with a higher one. */
  readonly rank: number;
  readonly rule: Rule;
}
