import type { IpvsFacts } from "../answer/answers.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import { setsFor } from "../plan/sets.ts";
import { chainKey, type Rule, type RuleSet } from "../state/rule.ts";
import { virtualServerKey } from "../state/virtual-server.ts";
import type { ListedRule, Picture } from "./packet/picture.ts";

/** What the kernel is to have of one family in mode ipvs, as far as the facts go. Pure. */
export function plannedPicture(
  facts: Pick<IpvsFacts, "rules" | "setEntries" | "virtualServers" | "boundAddresses">,
  family: IpFamily,
  render: (rule: Rule) => string,
): Picture {
  return {
    chains: plannedChains(facts.rules[family] ?? { chains: [], jumps: [] }, render),
    sets: new Map(
      setsFor(family).map(({ name, type }) => [
        name,
        { type, entries: new Set(facts.setEntries[name] ?? []) },
      ]),
    ),
    servers: new Map(
      facts.virtualServers.map((server) => [virtualServerKey(server.virtualServer), server]),
    ),
    bound: new Set<IpAddress>(facts.boundAddresses),
  };
}

/** By `chainKey`. */
export function plannedChains(
  { chains, jumps }: RuleSet,
  render: (rule: Rule) => string,
): ReadonlyMap<string, readonly ListedRule[]> {
  const listed = (rule: Rule): ListedRule => ({ text: render(rule), rule });
  const planned = new Map<string, readonly ListedRule[]>(
    chains.map(({ table, name, rules }) => [chainKey(table, name), rules.map(listed)]),
  );
  // Each goes to the first place.
  for (const { table, from, rule } of jumps) {
    const key = chainKey(table, from);
    planned.set(key, [listed(rule), ...(planned.get(key) ?? [])]);
  }
  return planned;
}
