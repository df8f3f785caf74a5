/** Chains and jumps of ours that no sync writes any more: what takes them out of the tables. */
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import { type RulesRemoval, removalOfRules } from "../../reconcile/diff/diff-rules.ts";
import type { Rule, RuleSet } from "../../state/rule.ts";

type Rules = Pick<Iptables, "observe" | "render">;

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

/** Plans the removal from what is there. */
export async function planRulesRemoval(
  iptables: Rules,
  family: IpFamily,
  planned: RuleSet,
): Promise<RulesRemoval> {
  const observed = await iptables.observe(family, { planned, hasOthers: true });
  const render = (rule: Rule): string => iptables.render(family, rule);
  return removalOfRules({ family, planned, render }, observed);
}

/** Removes them, and gives what that was. Rejects where the kernel refuses. */
export async function removeRules(
  iptables: Rules & Pick<Iptables, "apply">,
  family: IpFamily,
  planned: RuleSet,
): Promise<RulesRemoval> {
  const removal = await planRulesRemoval(iptables, family, planned);
  if (removal.changes.length > 0) await iptables.apply(family, removal.changes);
  return removal;
}
