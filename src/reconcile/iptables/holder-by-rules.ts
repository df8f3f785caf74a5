/**
 * Finds out at startup which claimant the existing rules serve, if several Services claim an address and port. Pure.
 */
import type { ObservedChain } from "../../kernel/kernel.ts";
import { type Holder, holderOf } from "../../plan/claims/claim.ts";
import type { UndecidedClaim } from "../../plan/claims/claims.ts";
import type { PortClaim } from "../../plan/claims/port-claims.ts";
import { servicePortChains } from "../../plan/iptables/chain-names.ts";
import type { ServicePortRules } from "../../plan/iptables/service-port-rules.ts";
import type { RenderRule } from "../kinds/rule-texts.ts";

/**
 * Returns the claimant whose chain is the target of the first rule for that address and port. Undefined if there is
 * no such rule or its target belongs to no claimant.
 */
export function holderByRules(
  { key, claims }: UndecidedClaim<PortClaim<ServicePortRules>>,
  observed: readonly ObservedChain[],
  render: RenderRule,
): Holder | undefined {
  for (const { plan } of claims) {
    const leading = plan.shared.find(({ chain, claim }) => leads.has(chain) && claim === key);
    if (leading === undefined) continue;
    const place = placeOf(render(leading.rule));
    const present = observed.find(({ table, name }) => `${table} ${name}` === leading.chain);
    const first = present?.rules.find(({ text }) => placeOf(text) === place);
    const target = / -j (\S+)$/.exec(first?.text ?? "")?.[1] ?? "";
    const holder = claims.find((claim) => chainsOf(claim.plan).includes(target));
    if (holder !== undefined) return holderOf(holder);
  }
  return undefined;
}

const leads: ReadonlySet<string> = new Set(["nat KUBE-SERVICES", "nat KUBE-NODEPORTS"]);

function chainsOf({ servicePort }: ServicePortRules): readonly string[] {
  return Object.values(servicePortChains(servicePort));
}

/** The matches of a rule, without its comment and target, such as `-d 10.96.0.10/32 -p tcp -m tcp --dport 80`. */
function placeOf(text: string): string {
  return text
    .replace(/ -m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/, "")
    .replace(/ -j .*$/, "")
    .replaceAll(/ {2,}/g, " ");
}
