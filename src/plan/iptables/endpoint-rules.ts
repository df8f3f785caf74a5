/** How a service port's traffic is spread over its endpoints. Pure. */
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

/** Rules that choose one of them: first whoever the client was at before, then at random. */
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

/** The chain of one endpoint: a pod that reaches itself is masqueraded, then the destination is rewritten. */
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

/** Of so many that are left each has the same chance; the last one takes what comes. */
function lot(left: number): readonly Match[] {
  return left === 1 ? [] : [{ kind: "chance", probability: 1 / left }];
}
