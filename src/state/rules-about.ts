/** Selects the chains and rules that packets to the given addresses and ports may traverse. Pure. */
import { cidrContains, type IpAddress, parseCidr } from "../base/ip.ts";
import { finish } from "../base/time-slice.ts";
import { type ChainKey, chainKey, type Match, type Rule, type TableName } from "./rule.ts";

/** The destination of packets. */
export interface RuleDestination {
  /** TCP, UDP, SCTP or ICMP. */
  readonly protocol: string;
  readonly address: IpAddress;
  readonly port: number;
}

/** A rule of a chain. `rule` is undefined if the rule cannot be parsed. */
export interface ReadableRule {
  readonly rule?: Rule;
}

/** The built-in chains, where packets start. All their rules are kept. */
const builtInChains: ReadonlySet<string> = new Set([
  "PREROUTING",
  "INPUT",
  "FORWARD",
  "OUTPUT",
  "POSTROUTING",
]);

/**
 * Returns the chains that packets can reach from the built-in chains. Omits our rules for other
 * destinations, so the result is small even with thousands of Services. Keeps third-party rules and rules that cannot be
 * parsed. `rulesOf` returns undefined if a chain does not exist or must not be followed.
 */
export function chainsAbout<T extends ReadableRule>(
  ...query: Parameters<typeof chainsAboutInSteps<T>>
): ReadonlyMap<ChainKey, readonly T[]> {
  return finish(chainsAboutInSteps(...query));
}

/** Like {@link chainsAbout}, but yields after each rule. */
export function* chainsAboutInSteps<T extends ReadableRule>(
  destinations: readonly RuleDestination[],
  rulesOf: (key: ChainKey) => readonly T[] | undefined,
): Generator<void, ReadonlyMap<ChainKey, readonly T[]>> {
  const found = new Map<ChainKey, readonly T[]>();
  const next: (readonly [TableName, string])[] = (
    ["raw", "mangle", "nat", "filter"] as const
  ).flatMap((table) => [...builtInChains].map((name) => [table, name] as const));
  for (const [table, name] of next) {
    const key = chainKey(table, name);
    const rules = found.has(key) ? undefined : rulesOf(key);
    if (rules === undefined) continue;
    const kept: T[] = [];
    for (const one of rules) {
      yield;
      const { rule } = one;
      const isOurs = name.startsWith("KUBE-");
      if (isOurs && rule !== undefined && !isAbout(rule, destinations)) continue;
      kept.push(one);
      if (rule?.target.kind === "jump") next.push([table, rule.target.chain]);
    }
    found.set(key, kept);
  }
  return found;
}

/** Whether a rule may match packets to one of the destinations, before the destination is translated. */
export function isAbout({ matches }: Rule, destinations: readonly RuleDestination[]): boolean {
  return destinations.some((destination) => matches.every((match) => mayMatch(match, destination)));
}

/** Whether a port match includes a destination port. */
export function isInPorts(
  { destination, last = destination }: Extract<Match, { readonly kind: "port" }>,
  port: number,
): boolean {
  return destination === undefined || (port >= destination && port <= (last ?? destination));
}

function mayMatch(match: Match, { protocol, address, port }: RuleDestination): boolean {
  switch (match.kind) {
    case "destination": {
      // Nearly all rules are for a single address, in canonical form.
      const [one = "", length] = match.cidr.split("/", 2);
      if (length === (one.includes(":") ? "128" : "32")) {
        return (one === address) !== match.isNegated;
      }
      const cidr = parseCidr(match.cidr);
      return (cidr !== undefined && cidrContains(cidr, address)) !== match.isNegated;
    }
    case "protocol":
      return match.protocol.toUpperCase() === protocol;
    case "port":
      return isInPorts(match, port);
    default:
      return true;
  }
}
