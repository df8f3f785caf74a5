import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Iptables } from "../../kernel/kernel.ts";

/** Families whose programs work here. */
export async function usableFamilies(
  iptables: Pick<Iptables, "probe">,
): Promise<readonly IpFamily[]> {
  const usable: IpFamily[] = [];
  for (const family of ipFamilies) {
    if ((await iptables.probe(family)).isSupported) usable.push(family);
  }
  return usable;
}
