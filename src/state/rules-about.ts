/** Of chains and rules those that packets to some addresses and ports may meet. Pure. */
import { cidrContains, type IpAddress, parseCidr } from "../base/ip.ts";
import { chainKey, type Match, type Rule, type TableName } from "./rule.ts";

/** Where packets go. */
export interface RuleDestination {
  /** ICMP has no ports. */
  readonly protocol: string;
  readonly address: IpAddress;
  readonly port: number;
}

/** A rule of a chain; without a value it cannot be read. */
export interface ReadableRule {
  readonly rule?: Rule;
}

/** Where packets begin. What stands there may be about endpoints, too. */
const builtInChains: ReadonlySet<string> = new Set([
  "PREROUTING",
  "INPUT",
  "FORWARD",
  "OUTPUT",
  "POSTROUTING",
]);

/**
 * Chains that are reached from the built-in ones, by {@link chainKey}, without rules of ours that are about other
 * destinations: in a cluster of thousands of Services a handful. Rules that cannot be read stay, and those of third parties. `rulesOf`: undefined
 * where there is no such chain, or nobody follows it.
 */
export function chainsAbout<T extends ReadableRule>(
  destinations: readonly RuleDestination[],
  rulesOf: (key: string) => readonly T[] | undefined,
): ReadonlyMap<string, readonly T[]> {
  const found = new Map<string, readonly T[]>();
  const visit = (table: TableName, name: string): void => {
    const key = chainKey(table, name);
    const rules = found.has(key) ? undefined : rulesOf(key);
    if (rules === undefined) return;
    const isKept = ({ rule }: T): boolean => rule === undefined || isAbout(rule, destinations);
    const kept = name.startsWith("KUBE-") ? rules.filter(isKept) : rules;
    found.set(key, kept);
    for (const { rule } of kept) {
      if (rule?.target.kind === "jump") visit(table, rule.target.chain);
    }
  };
  for (const table of ["raw", "mangle", "nat", "filter"] as const) {
    for (const name of builtInChains) visit(table, name);
  }
  return found;
}

/** Whether a rule may match packets to one of them, before anything rewrites their destination. */
export function isAbout({ matches }: Rule, destinations: readonly RuleDestination[]): boolean {
  return destinations.some((destination) => matches.every((match) => mayMatch(match, destination)));
}

function mayMatch(match: Match, { protocol, address, port }: RuleDestination): boolean {
  switch (match.kind) {
    case "destination": {
      const cidr = parseCidr(match.cidr);
      return (cidr !== undefined && cidrContains(cidr, address)) !== match.isNegated;
    }
    case "protocol":
      return match.protocol.toUpperCase() === protocol;
    case "port":
      return match.destination === undefined || match.destination === port;
    default:
      return true;
  }
}
