/** Whom the rules that a start finds serve at an address and port that several Services claim. Pure. */
import type { ObservedChain } from "../../kernel/kernel.ts";
import { type Holder, holderOf } from "../../plan/claims/claim.ts";
import type { UndecidedClaim } from "../../plan/claims/claims.ts";
import type { PortClaim } from "../../plan/claims/port-claims.ts";
import { servicePortChains } from "../../plan/iptables/chain-names.ts";
import type { ServicePortRules } from "../../plan/iptables/service-port-rules.ts";
import type { RenderRule } from "../kinds/rule-texts.ts";

/**
 * The claimant to whose chain the first rule leads that is about that address and port; undefined: to no claimant's, or
 * there is none.
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

/** What a rule matches, without its comment and its target: `-d 10.96.0.10/32 -p tcp -m tcp --dport 80`. */
function placeOf(text: string): string {
  return text
    .replace(/ -m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/, "")
    .replace(/ -j .*$/, "")
    .replaceAll(/ {2,}/g, " ");
}
