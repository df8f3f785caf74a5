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

export interface NftRemoval {
  /** Names of removed tables, such as `ip kube-proxy`. */
  readonly removed: readonly string[];
  readonly failures: readonly { readonly subject: string; readonly error: unknown }[];
}

/** Removes the tables with this name. A dry run only lists them. Never rejects. */
export async function removeNftTables(
  { nftTables }: Pick<Kernel, "nftTables">,
  name: string,
  isDryRun: boolean = false,
): Promise<NftRemoval> {
  const removed: string[] = [];
  const failures: { subject: string; error: unknown }[] = [];
  for (const family of ipFamilies) {
    const table = `${familyWords[family]} ${name}`;
    try {
      if ((await nftTables?.has(family, name)) !== true) continue;
      if (!isDryRun) await nftTables?.remove(family, name);
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
  const named = [[tableOfKubeProxy, "tables of kube-proxy's nftables mode"]];
  if (kernel.iptables.backend !== "nftables") {
    named.push([tableOfIpvsMode, "leftover rules and sets from nf_tables"]);
  }
  let isGone = true;
  for (const [name = "", what] of named) {
    const { removed, failures } = await removeNftTables(kernel, name);
    if (removed.length > 0) log.info(`Removed ${what}`, { tables: removed });
    for (const { subject, error } of failures) {
      log.warn(`Cannot remove ${what}`, { subject, err: errorText(error) });
    }
    isGone &&= failures.length === 0;
  }
  return isGone;
}
