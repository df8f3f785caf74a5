/** Chains of the kernel that packets to some destinations may meet, in modes whose rules grow with the Services. */

import type { Destination } from "../../answer/answers.ts";
import type { IpFamily } from "../../base/ip.ts";
import { parseRule } from "../../kernel/iptables/parse-rule.ts";
import type { Iptables, ObservedChain } from "../../kernel/kernel.ts";
import { chainKey, type RuleSet } from "../../state/rule.ts";
import { chainsAbout } from "../../state/rules-about.ts";
import type { ListedChains, ListedRule } from "../packet/node-state.ts";

export interface ChainsQuery {
  readonly family: IpFamily;
  readonly planned: RuleSet;
  readonly destinations: readonly Destination[];
}

/** Chains of one service port or endpoint: they may be left of one that nobody plans any more. */
const ownChain = /^nat KUBE-(?:SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}$/;

/** Those that are planned, and what they lead to; chains of third parties are passed over. */
export async function readChains(
  rules: Pick<Iptables, "observe">,
  { family, planned, destinations }: ChainsQuery,
): Promise<ListedChains> {
  const chains = await rules.observe(family, { planned, hasOthers: true });
  const byKey = new Map(chains.map((chain) => [chainKey(chain.table, chain.name), chain]));
  const plannedKeys = new Set([
    ...planned.chains.map(({ table, name }) => chainKey(table, name)),
    ...planned.jumps.map(({ table, from }) => chainKey(table, from)),
  ]);
  const rulesOf = (key: string): readonly ListedRule[] | undefined => {
    if (!plannedKeys.has(key) && !ownChain.test(key)) return undefined;
    return byKey.get(key)?.rules.map(listedRule);
  };
  const found = new Map(chainsAbout(destinations, rulesOf));
  // What is planned and out of reach is there all the same.
  for (const key of plannedKeys) {
    const left = found.has(key) ? undefined : rulesOf(key);
    if (left !== undefined) found.set(key, left);
  }
  return found;
}

export function listedRule({ text }: ObservedChain["rules"][number]): ListedRule {
  const rule = parseRule(text);
  return rule === undefined ? { text } : { text, rule };
}
