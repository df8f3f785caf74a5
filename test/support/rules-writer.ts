/** How the daemon of a lab suite writes the rules of IPVS mode, and shell lines that change them. */

/** TEST_RULES in the environment: undefined means with iptables and ipset. */
export const labRules: "nftables" | undefined =
  process.env["TEST_RULES"] === "nftables" ? "nftables" : undefined;

const families = [
  { iptables: "iptables", nft: "ip" },
  { iptables: "ip6tables", nft: "ip6" },
] as const;

/** Removes all rules of a chain, for both families. */
export function flushChain(table: "nat" | "filter", chain: string): string {
  const lines = families.map(({ iptables, nft }) =>
    labRules === undefined
      ? `${iptables} -w 5 -t ${table} -F ${chain}`
      : `nft flush chain ${nft} kube-ipvs ${table}-${chain}`,
  );
  return lines.join("\n");
}

/** Removes all entries of a set, for both families. `suffix`: such as `CLUSTER-IP`. */
export function flushSet(suffix: string): string {
  const names = [`KUBE-${suffix}`, `KUBE-6-${suffix}`];
  const lines = names.map((name, index) =>
    labRules === undefined
      ? `ipset flush ${name}`
      : `nft flush set ${families[index]?.nft} kube-ipvs ${name}`,
  );
  return lines.join("\n");
}
