/** Removes the tables of kube-proxy's nftables mode, and our own tables. */
import { errorText } from "../../base/error-text.ts";
import { ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { familyWords, tableName } from "../../kernel/nftables/message.ts";

/** kube-proxy's only table, in the families ip and ip6. */
export const tableOfKubeProxy = "kube-proxy";
/** The table with the rules and sets of IPVS mode, in the families ip and ip6. */
export const tableOfIpvsMode: string = tableName;

/** The existing tables with this name, such as `ip kube-proxy`. Rejects if they cannot be read. */
export async function presentNftTables(
  { nftTables }: Pick<Kernel, "nftTables">,
  name: string,
): Promise<readonly string[]> {
  const present: string[] = [];
  for (const family of nftTables === undefined ? [] : ipFamilies) {
    if (await nftTables?.has(family, name)) present.push(`${familyWords[family]} ${name}`);
  }
  return present;
}

export interface NftRemoval {
  /** Names of removed tables, such as `ip kube-proxy`. */
  readonly removed: readonly string[];
  readonly failures: readonly { readonly subject: string; readonly error: unknown }[];
}

/** Removes the given tables. Never rejects. */
export async function removeNftTables(
  { nftTables }: Pick<Kernel, "nftTables">,
  present: readonly string[],
): Promise<NftRemoval> {
  const removed: string[] = [];
  const failures: { subject: string; error: unknown }[] = [];
  for (const table of present) {
    const [word, name = ""] = table.split(" ");
    try {
      await nftTables?.remove(word === familyWords.IPv4 ? "IPv4" : "IPv6", name);
      removed.push(table);
    } catch (error) {
      failures.push({ subject: `nft table ${table}`, error });
    }
  }
  return { removed, failures };
}

/**
 * Removes the tables of kube-proxy's nftables mode, as kube-proxy does when it starts in IPVS mode, and our own tables
 * unless they are in use. Logs what was removed. Returns false if something could not be removed.
 */
export async function removeAndLogNftTables(
  kernel: Pick<Kernel, "nftTables" | "iptables">,
  log: Logger,
): Promise<boolean> {
  const ofKubeProxy = await removeAndLogTables(kernel, log, tableOfKubeProxy, {
    removed: "Removed tables of kube-proxy's nftables mode",
    failed: "Cannot remove leftovers of kube-proxy's nftables mode",
  });
  if (kernel.iptables.backend === "nftables") return ofKubeProxy;
  const ours = await removeAndLogTables(kernel, log, tableOfIpvsMode, {
    removed: "Removed leftover rules and sets from nf_tables",
    failed: "Cannot remove leftover rules and sets from nf_tables",
  });
  return ofKubeProxy && ours;
}

async function removeAndLogTables(
  kernel: Pick<Kernel, "nftTables">,
  log: Logger,
  name: string,
  events: { readonly removed: string; readonly failed: string },
): Promise<boolean> {
  try {
    const present = await presentNftTables(kernel, name);
    const { removed, failures } = await removeNftTables(kernel, present);
    if (removed.length > 0) log.info(events.removed, { tables: removed });
    for (const { subject, error } of failures) {
      log.warn(events.failed, { subject, err: errorText(error) });
    }
    return failures.length === 0;
  } catch (error) {
    log.warn(events.failed, { err: errorText(error) });
    return false;
  }
}
