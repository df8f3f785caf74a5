/** Opens iptables backends and ipset that the current mode does not use. */
import type { IpSets, Iptables, Kernel } from "../../kernel/kernel.ts";

export interface Unused {
  readonly iptables: readonly Iptables[];
  /** Undefined if the current mode uses ipset. */
  readonly ipSets?: IpSets;
}

/** Opens the unused backends and ipset for `work`, which removes leftovers. */
export async function withUnusedIptables<T>(
  { unusedBackend, unusedIptables }: Pick<Kernel, "unusedBackend" | "unusedIptables">,
  work: (unused: Unused) => Promise<T>,
): Promise<T> {
  if (unusedIptables === undefined) {
    return work({ iptables: unusedBackend === undefined ? [] : [unusedBackend] });
  }
  const { iptables, ipSets, close } = await unusedIptables();
  try {
    const sets = await ipSets.listSets().catch(() => []);
    return await work({ iptables, ...(sets.length === 0 ? {} : { ipSets }) });
  } finally {
    close();
  }
}
