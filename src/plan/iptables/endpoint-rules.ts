/** Distributes a service port's traffic to its endpoints. Pure. */
import type { Match, Rule } from "../../state/rule.ts";
import {
  comment,
  hostNetwork,
  jumpTo,
  ofProtocol,
  rule,
  source,
  toMarkMasq,
} from "../rule-words.ts";
import type { ListedEndpoint, RuleSubject } from "./rule-subject.ts";

/** Rules that choose an endpoint at random. With session affinity, a client's previous endpoint is chosen again. */
export function choiceRules(
  subject: RuleSubject,
  endpoints: readonly ListedEndpoint[],
): readonly Rule[] {
  const seconds = subject.port.affinitySeconds;
  const leading = ({ endpoint, chain }: ListedEndpoint, ...matches: readonly Match[]): Rule => {
    const text = `${subject.name} -> ${endpoint.key}`;
    return rule(jumpTo(chain), ...described(subject, text), ...matches);
  };
  return [
    ...(seconds === 0 ? [] : endpoints).map((one) =>
      leading(one, { kind: "recent-check", list: one.chain, seconds }),
    ),
    ...endpoints.map((one, index) => leading(one, ...lot(endpoints.length - index))),
  ];
}

/** The rules of one endpoint's chain. They masquerade packets from a pod to itself, then rewrite the destination. */
export function endpointRules(
  subject: RuleSubject,
  { endpoint: { address, port }, chain }: ListedEndpoint,
): readonly Rule[] {
  const { protocol } = subject;
  const isRemembered = subject.port.affinitySeconds !== 0;
  const text = described(subject, subject.name);
  return [
    rule(toMarkMasq, source(hostNetwork(address)), ...text),
    rule(
      { kind: "translate", address, port },
      ofProtocol(protocol),
      ...text,
      ...(isRemembered ? [{ kind: "recent-set", list: chain } as const] : []),
      { kind: "port", protocol },
    ),
  ];
}

function described({ port, options }: RuleSubject, text: string): readonly Match[] {
  return options.largeFamilies.has(port.family) ? [] : [comment(text)];
}

/**
 * Matches with probability 1/`left`, so that all remaining endpoints are equally likely. Empty for the last endpoint,
 * which needs no match.
 */
function lot(left: number): readonly Match[] {
  return left === 1 ? [] : [{ kind: "chance", probability: 1 / left }];
}
