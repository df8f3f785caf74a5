/** Reads the kernel's chains that packets to the given destinations may traverse. */

import type { Destination } from "../../answer/answers.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import { type ChainKey, chainKey, type RuleSet } from "../../state/rule.ts";
import { chainsAbout } from "../../state/rules-about.ts";
import type { ListedChains, ListedRule } from "../packet/node-state.ts";
import { parseListedRule } from "./parse-other-rule.ts";

export interface ChainsQuery {
  readonly family: IpFamily;
  readonly planned: RuleSet;
  readonly destinations: readonly Destination[];
}

/** Reads the chains that packets may traverse, including third-party rules, and all planned chains. */
export async function readChains(
  rules: Pick<Iptables, "observe">,
  { family, planned, destinations }: ChainsQuery,
): Promise<ListedChains> {
  const scope = { planned, hasOthers: true, hasAllTables: true } as const;
  const chains = await rules.observe(family, scope);
  const byKey = new Map(chains.map((chain) => [chainKey(chain.table, chain.name), chain]));
  const rulesOf = (key: ChainKey): readonly ListedRule[] | undefined => {
    const chain = byKey.get(key);
    if (chain === undefined) return undefined;
    return [
      ...chain.rules.map(({ text }) => parseListedRule(text)),
      ...(chain.policy === "DROP" ? [dropPolicy] : []),
    ];
  };
  const found = new Map(chainsAbout(destinations, rulesOf));
  // Planned chains are included even if no rule jumps to them.
  for (const { table, name } of planned.chains) {
    const key = chainKey(table, name);
    const left = found.has(key) ? undefined : rulesOf(key);
    if (left !== undefined) found.set(key, left);
  }
  return found;
}

/** The policy of a built-in chain acts like a final rule. */
const dropPolicy: ListedRule = {
  text: "policy DROP",
  rule: { matches: [], target: { kind: "drop" } },
};
