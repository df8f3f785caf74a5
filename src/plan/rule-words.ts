/** Building blocks of rules, and the rules that IPVS and iptables mode share. Pure. */
import { familyOf, hostPrefixLength, type IpAddress, type IpFamily } from "../base/ip.ts";
import type { Chain, Jump, Match, MatchProtocol, Rule, TableName, Target } from "../state/rule.ts";
import type { LocalDetector } from "./options.ts";

export type RuleProtocol = "tcp" | "udp" | "sctp";

export const accept: Target = { kind: "accept" };
export const drop: Target = { kind: "drop" };
export const stop: Target = { kind: "return" };
export const reject: Target = { kind: "reject" };

export function jumpTo(chain: string): Target {
  return { kind: "jump", chain };
}

export const toMarkMasq: Target = jumpTo("KUBE-MARK-MASQ");

export function rule(target: Target, ...matches: readonly Match[]): Rule {
  return { matches, target };
}

export function chain(table: TableName, name: string, rules: readonly Rule[]): Chain {
  return { table, name, rules };
}

/** A jump from a built-in chain to a kube-ipvs chain. kube-proxy finds such jumps by their comment. */
export function jump(
  table: TableName,
  from: string,
  to: string,
  ...matches: readonly Match[]
): Jump {
  return { table, from, rule: rule(jumpTo(to), ...matches) };
}

export function comment(text: string): Match {
  return { kind: "comment", text };
}

export function source(cidr: string, isNegated = false): Match {
  return { kind: "source", cidr, isNegated };
}

export function destination(cidr: string, isNegated = false): Match {
  return { kind: "destination", cidr, isNegated };
}

export function ofProtocol(protocol: MatchProtocol): Match {
  return { kind: "protocol", protocol };
}

export function toPort(protocol: RuleProtocol, port: number): Match {
  return { kind: "port", protocol, destination: port };
}

/** The network that contains only this address. */
export function hostNetwork(address: IpAddress): string {
  return `${address}/${hostPrefixLength(familyOf(address))}`;
}

export const loopbackNetwork: Readonly<Record<IpFamily, string>> = {
  IPv4: "127.0.0.0/8",
  IPv6: "::1/128",
};

/** Matches traffic from this node's pods or, if negated, all other traffic. */
export function fromPods(detector: LocalDetector, isNegated: boolean): Match {
  if (detector.kind === "source") return source(detector.cidr, isNegated);
  return { kind: "in-interface", name: detector.name, isNegated };
}

export const sourceIsLocal: Match = {
  kind: "address-type",
  end: "src",
  type: "LOCAL",
  isNegated: false,
};

export const destinationIsLocal: Match = { ...sourceIsLocal, end: "dst" };

export const portals: Match = comment("kubernetes service portals");

/** The rule of KUBE-MARK-MASQ. */
export function markRule(mark: number): Rule {
  return rule({ kind: "xmark", value: mark, mask: mark });
}

/** The rules of KUBE-POSTROUTING, which masquerade marked packets. */
export function masqueradeRules(mark: number): readonly Rule[] {
  return [
    rule(stop, { kind: "mark", value: mark, mask: mark, isNegated: true }),
    // Clears the mark, so that a packet that traverses the network stack again is not masqueraded twice.
    rule({ kind: "xmark", value: mark, mask: 0 }),
    rule(
      { kind: "masquerade", isRandomFully: true },
      comment("kubernetes service traffic requiring SNAT"),
    ),
  ];
}

export const forwarding: Match = comment("kubernetes forwarding rules");

/** The rules of KUBE-FORWARD, which accept marked packets and packets that belong to accepted connections. */
export function forwardRules(mark: number): readonly Rule[] {
  return [
    rule(accept, forwarding, { kind: "mark", value: mark, mask: mark, isNegated: false }),
    rule(accept, comment("kubernetes forwarding conntrack rule"), {
      kind: "conntrack-state",
      states: ["RELATED", "ESTABLISHED"],
    }),
  ];
}
