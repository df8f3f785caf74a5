/** How a service port's traffic is spread over its endpoints. Pure. */
import type { Endpoint } from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { Match, Rule } from "../../state/rule.ts";
import {
  comment,
  hostNetwork,
  jumpTo,
  ofProtocol,
  type RuleProtocol,
  rule,
  source,
  toMarkMasq,
} from "../rule-words.ts";
import { endpointChain } from "./chain-names.ts";
import type { IptablesOptions } from "./options.ts";

/** An endpoint with the chain that leads to it. */
export interface ListedEndpoint {
  readonly endpoint: Endpoint;
  readonly chain: string;
}

export function listEndpoints(
  port: ServicePort,
  endpoints: readonly Endpoint[],
): readonly ListedEndpoint[] {
  return endpoints.map((endpoint) => ({ endpoint, chain: endpointChain(port, endpoint.key) }));
}

export interface EndpointRuleParts {
  readonly port: ServicePort;
  readonly name: string;
  readonly protocol: RuleProtocol;
  readonly options: Pick<IptablesOptions, "largeFamilies">;
}

export interface EndpointRules {
  /** Rules that choose one of them: first whoever the client was at before, then at random. */
  choice(endpoints: readonly ListedEndpoint[], affinitySeconds: number): readonly Rule[];
  /** The chain of one endpoint: a pod that reaches itself is masqueraded, then the destination is rewritten. */
  endpoint(listed: ListedEndpoint): readonly Rule[];
}

export function endpointRules({ port, name, protocol, options }: EndpointRuleParts): EndpointRules {
  const described = (text: string): readonly Match[] =>
    options.largeFamilies.has(port.family) ? [] : [comment(text)];
  return {
    choice: (endpoints, affinitySeconds) => [
      ...(affinitySeconds === 0 ? [] : endpoints).map(({ endpoint, chain }) =>
        rule(jumpTo(chain), ...described(`${name} -> ${endpoint.key}`), {
          kind: "recent-check",
          list: chain,
          seconds: affinitySeconds,
        }),
      ),
      ...endpoints.map(({ endpoint, chain }, index) =>
        rule(
          jumpTo(chain),
          ...described(`${name} -> ${endpoint.key}`),
          ...lot(endpoints.length - index),
        ),
      ),
    ],
    endpoint: ({ endpoint, chain }) => [
      rule(toMarkMasq, source(hostNetwork(endpoint.address)), ...described(name)),
      rule(
        { kind: "translate", address: endpoint.address, port: endpoint.port },
        ofProtocol(protocol),
        ...described(name),
        ...(port.affinitySeconds === 0 ? [] : [{ kind: "recent-set", list: chain } as const]),
        { kind: "port", protocol },
      ),
    ],
  };
}

/** Of so many that are left each has the same chance; the last one takes what comes. */
function lot(left: number): readonly Match[] {
  return left === 1 ? [] : [{ kind: "chance", probability: 1 / left }];
}
