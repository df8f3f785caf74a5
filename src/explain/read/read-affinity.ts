/** Reads a client's session affinity in iptables mode. */

import type { Destination } from "../../answer/answers.ts";
import type { RememberedConnection } from "../../answer/explanation.ts";
import { hostPort, type IpAddress } from "../../base/ip.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import { chainKey } from "../../state/rule.ts";
import { chainsAbout } from "../../state/rules-about.ts";
import type { ListedChains } from "../packet/node-state.ts";

/**
 * Returns the endpoints whose lists contain the client. Some of them may have expired, because the kernel does not
 * report the entries' age in seconds.
 */
export function readAffinity(
  { recentLists }: Pick<KernelReaders, "recentLists">,
  destination: Destination,
  client: IpAddress,
  chains: ListedChains,
): readonly RememberedConnection[] {
  const rules = [...chainsAbout([destination], (key) => chains.get(key)).values()].flat();
  return rules.flatMap(({ rule }): readonly RememberedConnection[] => {
    const check = rule?.matches.find((match) => match.kind === "recent-check");
    if (check === undefined || rule?.target.kind !== "jump") return [];
    if (!recentLists.clientsIn(check.list).includes(client)) return [];
    return endpointsOf(rule.target.chain, chains).map((realServer) => ({
      ...{ client, realServer },
      state: "RECENT",
    }));
  });
}

function endpointsOf(chain: string, chains: ListedChains): readonly string[] {
  return (chains.get(chainKey("nat", chain)) ?? []).flatMap(({ rule }) =>
    rule?.target.kind === "translate" ? [hostPort(rule.target.address, rule.target.port)] : [],
  );
}
