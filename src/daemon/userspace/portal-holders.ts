/** At startup, finds which of several Services the rules of an earlier process served. */
import { type IpAddress, type IpFamily, parseCidr } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import { parseRule } from "../../kernel/iptables/parse-rule.ts";
import type { Iptables, ObservedChain } from "../../kernel/kernel.ts";
import { servicePortName } from "../../model/service-port.ts";
import { holderOf } from "../../plan/claims/claim.ts";
import type { Match, Rule } from "../../state/rule.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import { portalChains, portalRules } from "../../userspace/portal-rules.ts";
import type { PortalClaims } from "./portal-claims.ts";

/**
 * Sets the owners of contested addresses that have no recorded owner. Reads the rules only if there are such
 * addresses. Rejects if the rules cannot be read.
 */
export async function findPortalHolders(
  claims: PortalClaims,
  iptables: Pick<Iptables, "observe">,
  families: readonly IpFamily[],
): Promise<void> {
  for (const family of families) {
    if (
      !claims.undecided().some(({ claims: [first] }) => first?.plan.servicePort.family === family)
    )
      continue;
    holdAsObserved(claims, await iptables.observe(family, { planned: portalRules(family, []) }));
  }
}

/** Makes the Service in the comment of the first rule for an address and port its owner. */
export function holdAsObserved(claims: PortalClaims, observed: readonly ObservedChain[]): void {
  const names = namesByKey(observed);
  for (const { key, claims: rivals } of claims.undecided()) {
    const served = rivals.find(({ plan }) => servicePortName(plan.servicePort) === names.get(key));
    if (served !== undefined) claims.hold(key, holderOf(served));
  }
}

/** Addresses that the rules of an earlier process redirect to listeners. Rejects if the rules cannot be read. */
export async function readServedByPortals(
  iptables: Pick<Iptables, "observe">,
  families: readonly IpFamily[],
): Promise<ReadonlySet<IpAddress>> {
  const served = new Set<IpAddress>();
  for (const family of families) {
    const observed = await iptables.observe(family, { planned: portalRules(family, []) });
    for (const { matches } of rulesFromElsewhere(observed)) {
      const cidr = parseCidr(matchOf(matches, "destination")?.cidr ?? "");
      if (cidr !== undefined) served.add(cidr.address);
    }
  }
  return served;
}

function rulesFromElsewhere(observed: readonly ObservedChain[]): readonly Rule[] {
  const chain = observed.find(
    ({ table, name }) => table === "nat" && name === portalChains.fromElsewhere,
  );
  return (chain?.rules ?? []).flatMap(({ text }) => parseRule(text) ?? []);
}

function namesByKey(observed: readonly ObservedChain[]): ReadonlyMap<string, string> {
  // Reversed, so that the first rule for a key wins.
  return new Map(rulesFromElsewhere(observed).toReversed().flatMap(nameOf));
}

function nameOf({ matches }: Rule): readonly (readonly [key: string, name: string])[] {
  const cidr = parseCidr(matchOf(matches, "destination")?.cidr ?? "");
  const { protocol, destination: port } = matchOf(matches, "port") ?? {};
  const name = matchOf(matches, "comment")?.text;
  if (cidr === undefined || protocol === undefined || port === undefined || name === undefined)
    return [];
  const id = { protocol: protocol.toUpperCase() as Protocol, address: cidr.address, port };
  return [[virtualServerKey(id), name]];
}

function matchOf<K extends Match["kind"]>(
  matches: readonly Match[],
  kind: K,
): Extract<Match, { kind: K }> | undefined {
  return matches.find((match): match is Extract<Match, { kind: K }> => match.kind === kind);
}
