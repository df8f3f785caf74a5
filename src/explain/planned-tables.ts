import type { PlannedState } from "../answer/answers.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import { allSetsFor } from "../plan/sets.ts";
import { type ChainKey, chainKey, type Rule, type RuleSet } from "../state/rule.ts";
import { virtualServerKey } from "../state/virtual-server.ts";
import type { ListedChains, ListedRule, Tables } from "./packet/node-state.ts";

/** Returns one family's desired state, as far as the facts contain it. Pure. */
export function plannedTables(
  facts: Omit<PlannedState, "mode" | "services">,
  family: IpFamily,
  render: (rule: Rule) => string,
): Tables {
  return {
    chains: plannedChains(facts.rules[family] ?? { chains: [], jumps: [] }, render),
    sets: new Map(
      allSetsFor(family).flatMap(({ name, type }) => {
        const entries = facts.setEntries[name];
        return entries === undefined ? [] : [[name, { type, entries: new Set(entries) }]];
      }),
    ),
    servers: new Map(
      facts.virtualServers.map((server) => [virtualServerKey(server.virtualServer), server]),
    ),
    bound: new Set<IpAddress>(facts.boundAddresses),
  };
}

function plannedChains({ chains, jumps }: RuleSet, render: (rule: Rule) => string): ListedChains {
  const listed = (rule: Rule): ListedRule => ({ text: render(rule), rule });
  const planned = new Map<ChainKey, readonly ListedRule[]>(
    chains.map(({ table, name, rules }) => [chainKey(table, name), rules.map(listed)]),
  );
  // Each jump is inserted at the beginning of its chain.
  for (const { table, from, rule } of jumps) {
    const key = chainKey(table, from);
    planned.set(key, [listed(rule), ...(planned.get(key) ?? [])]);
  }
  return planned;
}
