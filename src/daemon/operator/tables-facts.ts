/**
 * Collects what is planned for some addresses and ports in iptables mode. Reads the daemon's state, and does not plan
 * anything again.
 */

import { type Destination, type PlannedState, withoutIpvs } from "../../answer/answers.ts";
import { familyOf, type IpFamily } from "../../base/ip.ts";
import { bySeniority, servicePortKey } from "../../model/service-port.ts";
import { chainKey, type RuleSet } from "../../state/rule.ts";
import { chainsAbout } from "../../state/rules-about.ts";
import type { TablesView } from "./daemon-view.ts";
import { type Claim, rowsOfClaims } from "./object-claims.ts";

export async function tablesFacts(
  view: TablesView,
  destinations: readonly Destination[],
): Promise<PlannedState> {
  return {
    ...withoutIpvs,
    mode: "iptables",
    iptablesBackend: view.iptables.choice.backend,
    services: await rowsOfClaims(view, destinations, byAge),
    rules: Object.fromEntries(
      view.families
        .filter((family) => destinations.some(({ address }) => familyOf(address) === family))
        .map((family) => [family, rulesAbout(view, family, destinations)]),
    ),
  };
}

function byAge(one: Claim, other: Claim): number {
  return bySeniority(seniorityOf(one), seniorityOf(other));
}

function seniorityOf({ servicePort }: Claim): Parameters<typeof bySeniority>[0] {
  return { ...servicePort, name: servicePortKey(servicePort) };
}

/** The rules that packets to the destinations may traverse. */
function rulesAbout(
  view: TablesView,
  family: IpFamily,
  destinations: readonly Destination[],
): RuleSet {
  const { chains, jumps } = view.rulesOf(family);
  const byKey = new Map(chains.map((chain) => [chainKey(chain.table, chain.name), chain]));
  const jumpsByKey = Map.groupBy(jumps, ({ table, from }) => chainKey(table, from));
  const about = chainsAbout(destinations, (key) => {
    const rules = byKey.get(key)?.rules ?? jumpsByKey.get(key)?.map(({ rule }) => rule);
    return rules?.map((rule) => ({ rule }));
  });
  return {
    chains: chains.flatMap((chain) => {
      const kept = about.get(chainKey(chain.table, chain.name));
      return kept === undefined ? [] : [{ ...chain, rules: kept.map(({ rule }) => rule) }];
    }),
    jumps,
  };
}
