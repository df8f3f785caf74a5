/** Chains and jumps of ours that no sync writes any more: what takes them out of the tables. */
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import { planEmptyRules } from "../../plan/rules.ts";
import type { RulesRemoval } from "../../reconcile/diff/diff-rules.ts";
import { planRulesRemoval } from "../../reconcile/remove-all.ts";
import type { RuleSet } from "../../state/rule.ts";
import { portalRules } from "../../userspace/portal-rules.ts";

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

/** Chains and jumps of modes ipvs and userspace, whichever ran here. */
export function rulesOfAnyMode(family: IpFamily, config: Config): RuleSet {
  const [one, other] = [planEmptyRules(family, config), portalRules(family, [])];
  return { chains: [...one.chains, ...other.chains], jumps: [...one.jumps, ...other.jumps] };
}

/** Removes them, and gives what that was. Rejects where the kernel refuses. */
export async function removeRules(
  iptables: Pick<Iptables, "observe" | "render" | "apply">,
  family: IpFamily,
  planned: RuleSet,
): Promise<RulesRemoval> {
  const removal = await planRulesRemoval(iptables, family, planned);
  if (removal.changes.length > 0) await iptables.apply(family, removal.changes);
  return removal;
}
