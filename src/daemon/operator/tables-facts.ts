/**
 * Collects what is planned for some addresses and ports in iptables mode. Reads the daemon's state without replanning.
 */

import { type Destination, type PlannedState, withoutIpvs } from "../../answer/answers.ts";
import { familyOf, type IpFamily } from "../../base/ip.ts";
import { inSlices } from "../../base/time-slice.ts";
import { bySeniority, servicePortKey } from "../../model/service-port.ts";
import { type Chain, chainKey, type RuleSet } from "../../state/rule.ts";
import { chainsAboutInSteps } from "../../state/rules-about.ts";
import type { TablesView } from "./daemon-view.ts";
import { rowsOfClaims } from "./object-claims.ts";
import type { WantedFrontend } from "./wanted-frontends.ts";

export async function tablesFacts(
  view: TablesView,
  destinations: readonly Destination[],
): Promise<PlannedState> {
  const rules: Partial<Record<IpFamily, RuleSet>> = {};
  for (const family of view.families) {
    if (!destinations.some(({ address }) => familyOf(address) === family)) continue;
    rules[family] = await inSlices(view.clock, rulesAbout(view.rulesOf(family), destinations));
  }
  return {
    ...withoutIpvs,
    mode: "iptables",
    iptablesBackend: view.iptables.choice.backend,
    services: await rowsOfClaims(view, destinations, byAge),
    rules,
  };
}

function byAge(one: WantedFrontend, other: WantedFrontend): number {
  return bySeniority(seniorityOf(one), seniorityOf(other));
}

function seniorityOf({ servicePort }: WantedFrontend): Parameters<typeof bySeniority>[0] {
  return { ...servicePort, name: servicePortKey(servicePort) };
}

/** The rules that packets to the destinations may traverse. Yields after each chain and rule. */
function* rulesAbout(
  { chains, jumps }: RuleSet,
  destinations: readonly Destination[],
): Generator<void, RuleSet> {
  const byKey = new Map<string, Chain>();
  for (const chain of chains) {
    byKey.set(chainKey(chain.table, chain.name), chain);
    yield;
  }
  const jumpsByKey = Map.groupBy(jumps, ({ table, from }) => chainKey(table, from));
  const about = yield* chainsAboutInSteps(destinations, (key) => {
    const rules = byKey.get(key)?.rules ?? jumpsByKey.get(key)?.map(({ rule }) => rule);
    return rules?.map((rule) => ({ rule }));
  });
  return {
    chains: [...about].flatMap(([key, kept]) => {
      const chain = byKey.get(key);
      return chain === undefined ? [] : [{ ...chain, rules: kept.map(({ rule }) => rule) }];
    }),
    jumps,
  };
}
