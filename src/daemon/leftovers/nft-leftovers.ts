/** Removes the tables of kube-proxy's nftables mode. */
import { errorText } from "../../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Kernel } from "../../kernel/kernel.ts";

/** kube-proxy's only table, in the families ip and ip6. */
const tableName = "kube-proxy";

/** The tables that exist, for example `ip kube-proxy`. Rejects if they cannot be read. */
export async function presentNftTables({
  nftTables,
}: Pick<Kernel, "nftTables">): Promise<readonly string[]> {
  const present: string[] = [];
  for (const family of nftTables === undefined ? [] : ipFamilies) {
    if (await nftTables?.has(family, tableName)) present.push(nftTableText(family));
  }
  return present;
}

export interface NftRemoval {
  /** Names of removed tables, for example `ip kube-proxy`. */
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
  for (const family of ipFamilies) {
    const table = nftTableText(family);
    if (!present.includes(table)) continue;
    try {
      await nftTables?.remove(family, tableName);
      removed.push(table);
    } catch (error) {
      failures.push({ subject: `nft table ${table}`, error });
    }
  }
  return { removed, failures };
}

/**
 * Removes and logs the tables, as kube-proxy does when it starts in IPVS mode. Returns false if something could not
 * be removed.
 */
export async function removeAndLogNftTables(
  kernel: Pick<Kernel, "nftTables">,
  log: Logger,
): Promise<boolean> {
  const event = "Cannot remove leftovers of kube-proxy's nftables mode";
  try {
    const { removed, failures } = await removeNftTables(kernel, await presentNftTables(kernel));
    const tables = { tables: removed };
    if (removed.length > 0) log.info("Removed tables of kube-proxy's nftables mode", tables);
    for (const { subject, error } of failures) log.warn(event, { subject, err: errorText(error) });
    return failures.length === 0;
  } catch (error) {
    log.warn(event, { err: errorText(error) });
    return false;
  }
}

function nftTableText(family: IpFamily): string {
  return `${family === "IPv4" ? "ip" : "ip6"} ${tableName}`;
}
