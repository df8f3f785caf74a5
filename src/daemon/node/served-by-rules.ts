import { type IpAddress, type IpFamily, parseCidr } from "../../base/ip.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import type { Rule, RuleSet } from "../../state/rule.ts";

/** Addresses of Services that have rules in iptables mode, and addresses of the endpoints in those rules. */
export interface ServedByRules {
  readonly services: ReadonlySet<IpAddress>;
  readonly endpoints: ReadonlySet<IpAddress>;
}

/** KUBE-SERVICES has one rule for each address and port. All other chains are reached from it. */
const entrance: RuleSet = {
  chains: [{ table: "nat", name: "KUBE-SERVICES", rules: [] }],
  jumps: [],
};
const endpointChain = /^KUBE-SEP-[A-Z2-7]{16}$/;

/**
 * Reads the served addresses from the rules that an earlier run or kube-proxy left. Rejects if rules cannot be read.
 */
export async function readServedByRules(
  iptables: Pick<Iptables, "observe" | "parse">,
  families: readonly IpFamily[],
): Promise<ServedByRules> {
  const services = new Set<IpAddress>();
  const endpoints = new Set<IpAddress>();
  for (const family of families) {
    const chains = await iptables.observe(family, { planned: entrance, hasOthers: true });
    for (const { table, name, rules } of chains) {
      if (table !== "nat" || !(name === "KUBE-SERVICES" || endpointChain.test(name))) continue;
      for (const { text } of rules) {
        const rule = iptables.parse(text);
        if (rule === undefined) continue;
        if (rule.target.kind === "translate") endpoints.add(rule.target.address);
        else for (const address of destinationsOf(rule)) services.add(address);
      }
    }
  }
  return { services, endpoints };
}

function destinationsOf({ matches }: Rule): readonly IpAddress[] {
  return matches.flatMap((match) => {
    const cidr = match.kind === "destination" ? parseCidr(match.cidr) : undefined;
    return cidr === undefined ? [] : [cidr.address];
  });
}
