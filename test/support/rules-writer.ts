/**
 * Selects how a lab suite's daemon writes IPVS mode rules, and provides shell lines that change and list them.
 */

import { shell } from "./netns/network-namespace.ts";

/** TEST_RULES from the environment. Undefined means iptables and ipset. */
export const labRules: "nftables" | undefined =
  process.env["TEST_RULES"] === "nftables" ? "nftables" : undefined;

/** The flag for the built program in IPVS mode. */
export const rulesFlags: readonly string[] =
  labRules === undefined ? [] : [`--kube-ipvs-rules=${labRules}`];

/** Metric labels of the rule and set changes when all rules and sets move to nf_tables. */
export const movedChange: RegExp =
  labRules === undefined ? /^$/ : /kind="(?:set|entry|chain|jump)-[a-z]+"/;

/** False with LAB_IPTABLES=none: the kernel has neither iptables nor ipset, and their programs are not installed. */
export const hasIptables: boolean = process.env["LAB_IPTABLES"] !== "none";

/** Returns the reason to skip a case about objects in iptables or ipset, if the node has neither. */
export function unlessIptables(why: string): string | false {
  return hasIptables ? false : `no iptables: ${why}`;
}

/** Returns the reason to skip a case that concerns only iptables or ipset, if nf_tables is used. */
export function unlessNftables(why: string): string | false {
  return labRules === undefined ? false : why;
}

type Tool = "iptables" | "ip6tables";
const nftFamilies: Readonly<Record<Tool, string>> = { iptables: "ip", ip6tables: "ip6" };
const tools: readonly Tool[] = ["iptables", "ip6tables"];

interface ChainPlace {
  readonly tool: Tool;
  readonly table: "nat" | "filter";
  readonly chain: string;
}

function nftPlace({ tool, table, chain }: ChainPlace): string {
  return `${nftFamilies[tool]} kube-ipvs ${table}-${chain}`;
}

/** Removes all rules from a chain, for both families. */
export function flushChain(table: "nat" | "filter", chain: string): string {
  const lines = tools.map((tool) =>
    labRules === undefined
      ? `${tool} -w 5 -t ${table} -F ${chain}`
      : `nft flush chain ${nftPlace({ tool, table, chain })}`,
  );
  return lines.join("\n");
}

/** Removes the rule at this position, counted from 1. */
export function deleteRule(place: ChainPlace, position: number): string {
  if (labRules === undefined) {
    return `${place.tool} -t ${place.table} -D ${place.chain} ${position}`;
  }
  const handles = `nft -a list chain ${nftPlace(place)} | sed -n 's/^\\t\\t.*# handle //p'`;
  return `nft delete rule ${nftPlace(place)} handle $(${handles} | sed -n ${position}p)`;
}

/** Inserts a rule that accepts everything. */
export function insertAccept(place: ChainPlace): string {
  return labRules === undefined
    ? `${place.tool} -t ${place.table} -I ${place.chain} -j ACCEPT`
    : `nft insert rule ${nftPlace(place)} accept`;
}

/** Deletes a chain, and the rule in `from` that jumps to it. */
export function deleteChain(place: ChainPlace, from: string): string {
  const { tool, table, chain } = place;
  if (labRules === undefined) {
    const jumps = `${tool} -t ${table} -S ${from} | tail -n +2 | grep -n '${chain}$' | cut -d: -f1`;
    return `${tool} -t ${table} -D ${from} $(${jumps}) && ${tool} -t ${table} -F ${chain} && ${tool} -t ${table} -X ${chain}`;
  }
  const fromPlace = nftPlace({ tool, table, chain: from });
  const jumps = `nft -a list chain ${fromPlace} | sed -n 's/.*jump ${table}-${chain} .*# handle //p'`;
  return `nft delete rule ${fromPlace} handle $(${jumps}) && nft flush chain ${nftPlace(place)} && nft delete chain ${nftPlace(place)}`;
}

/** Adds an entry in ipset format to a set of IPv4 addresses, or deletes it. */
export function changeEntry(verb: "add" | "del", set: string, entry: string): string {
  if (labRules === undefined) return `ipset ${verb} ${set} ${entry}`;
  const element = entry.replaceAll(/[,:]/g, " . ");
  return `nft ${verb === "add" ? "add" : "delete"} element ip kube-ipvs ${set} '{ ${element} }'`;
}

export function destroySet(set: string): string {
  return labRules === undefined ? `ipset destroy ${set}` : `nft delete set ip kube-ipvs ${set}`;
}

/** Removes all entries from a set, for both families. `suffix` is the end of the set's name, such as `CLUSTER-IP`. */
export function flushSet(suffix: string): string {
  const lines = tools.map((tool) => {
    // The kernel allows 31 bytes.
    const name = (tool === "iptables" ? `KUBE-${suffix}` : `KUBE-6-${suffix}`).slice(0, 31);
    return labRules === undefined
      ? `ipset flush ${name}`
      : `nft flush set ${nftFamilies[tool]} kube-ipvs ${name}`;
  });
  return lines.join("\n");
}

/** Removes all entries from all sets. */
export const flushNftSets: string =
  "nft list sets | sed -n '/^table/{s/table //;s/ {//;h};/set KUBE/{s/.*set //;s/ {//;G;s/\\(.*\\)\\n\\(.*\\)/flush set \\2 \\1/p}' | nft -f -";
export const flushSets: string = labRules === undefined ? "ipset flush" : flushNftSets;

/** Adds a third-party rule that drops packets from this IPv4 address to the node. */
export function dropFrom(address: string): string {
  if (hasIptables) return `iptables -A INPUT -s ${address} -j DROP`;
  return `nft 'table ip firewall { chain input { type filter hook input priority 0; ip saddr ${address} drop; }; }'`;
}

/** Prints all rules of both families in iptables. */
export const listIptables: string = hasIptables ? "iptables-save; ip6tables-save" : "true";

/** Prints the names of all ipsets. */
export const listIpsets: string = hasIptables ? "ipset list -n" : "true";

/** Prints all rules and sets. */
export const listRules: string =
  labRules === undefined
    ? `ipset save | sort; ${listIptables}`
    : "for family in ip ip6; do nft -s list table $family kube-ipvs 2> /dev/null || true; done";

/**
 * Services' rules and sets in iptables and ipset, in a fixed order and without packet counters. Omits chains that
 * kubelet also creates.
 */
export function rulesOfIptables(): string {
  return shell(`ipset save | sort; ${listIptables}`)
    .split("\n")
    .filter((line) => /KUBE-(?!MARK-DROP)/.test(line))
    .map((line) => line.replace(/ \[\d+:\d+\]$/, ""))
    .join("\n");
}

/** The output of {@link listRules} in an order that is independent of the kernel. */
export function inOrder(listing: string): string {
  return labRules === undefined ? listing : inNftOrder(listing);
}

/** The chains in the output of `nft list table`, without the sets. */
export function chainsOf(listing: string): string {
  const blocks = listing.split(/^(?=table |\t(?:chain|set) )/m);
  return blocks.filter((block) => !block.startsWith("\tset")).join("");
}

/** The output of `nft list table` in an order that is independent of the kernel. */
export function inNftOrder(listing: string): string {
  const ofSet = (elements: string): string =>
    elements
      .split(",")
      .map((element) => element.trim())
      .toSorted()
      .join(", ");
  return listing
    .replaceAll(/elements = \{([^}]*)\}/g, (_, elements: string) => ofSet(elements))
    .replaceAll(/^\}?\n/gm, "")
    .split(/^(?=\t?(?:table|chain|set) )/m)
    .toSorted()
    .join("");
}
