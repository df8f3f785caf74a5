/** The words of which rules of this mode are made. Pure. */
import type { IpAddress } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import type { Match, Rule, Target } from "../../state/rule.ts";

export type RuleProtocol = "tcp" | "udp" | "sctp";

export const accept: Target = { kind: "accept" };
export const drop: Target = { kind: "drop" };
export const stop: Target = { kind: "return" };
export const toMarkMasq: Target = { kind: "jump", chain: "KUBE-MARK-MASQ" };

export function jumpTo(chain: string): Target {
  return { kind: "jump", chain };
}

export function rule(target: Target, ...matches: readonly Match[]): Rule {
  return { matches, target };
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

/** The network of one address. */
export function hostNetwork(address: IpAddress): string {
  return `${address}/${address.includes(":") ? 128 : 32}`;
}

export function ruleProtocol(protocol: Protocol): RuleProtocol {
  return protocol.toLowerCase() as RuleProtocol;
}

export const sourceIsLocal: Match = {
  kind: "address-type",
  end: "src",
  type: "LOCAL",
  isNegated: false,
};

export const destinationIsLocal: Match = {
  kind: "address-type",
  end: "dst",
  type: "LOCAL",
  isNegated: false,
};
