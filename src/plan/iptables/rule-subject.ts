/** Values that the rules of one service port share, computed once. Pure. */
import type { IpAddress } from "../../base/ip.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import { type ServicePort, servicePortName } from "../../model/service-port.ts";
import type { ChosenEndpoints } from "../../model/topology.ts";
import type { Match } from "../../state/rule.ts";
import { type Frontend, frontendsOf } from "../frontends.ts";
import type { FamilyOptions } from "../options.ts";
import {
  comment,
  destination,
  hostNetwork,
  ofProtocol,
  type RuleProtocol,
  toPort,
} from "../rule-words.ts";
import { endpointChain, type ServicePortChains, servicePortChains } from "./chain-names.ts";
import type { IptablesFamilyOptions, IptablesOptions } from "./options.ts";

/** Planning input other than the service port and its endpoints. */
export interface IptablesContext {
  readonly options: IptablesOptions;
  readonly family: FamilyOptions;
  readonly own: IptablesFamilyOptions;
}

/** An endpoint and the chain that leads to it. */
export interface ListedEndpoint {
  readonly endpoint: Endpoint;
  readonly chain: string;
}

export interface RuleSubject extends IptablesContext {
  readonly port: ServicePort;
  /** `namespace/name:port` */
  readonly name: string;
  readonly protocol: RuleProtocol;
  readonly chains: ServicePortChains;
  readonly cluster: readonly ListedEndpoint[];
  readonly local: readonly ListedEndpoint[];
  readonly hasUsable: boolean;
  /** Whether traffic to the cluster IP has an endpoint that it may use. */
  readonly hasInternal: boolean;
  readonly hasExternal: boolean;
  readonly frontends: readonly Frontend[];
  /** Addresses that are served; see {@link frontendsOf}. */
  readonly externalIps: readonly IpAddress[];
  readonly loadBalancerIps: readonly IpAddress[];
  readonly usesFirewall: boolean;
}

export function ruleSubject(
  port: ServicePort,
  chosen: ChosenEndpoints,
  context: IptablesContext,
): RuleSubject {
  const { hasUsable } = chosen;
  const frontends = frontendsOf(port, context.family);
  const addressesOf = (kind: "external-ip" | "load-balancer"): readonly IpAddress[] =>
    frontends.filter((frontend) => frontend.kind === kind).map(({ address }) => address);
  const listed = (endpoints: readonly Endpoint[]): readonly ListedEndpoint[] =>
    endpoints.map((endpoint) => ({ endpoint, chain: endpointChain(port, endpoint.key) }));
  const loadBalancerIps = addressesOf("load-balancer");
  const reached = (isLocal: boolean): boolean =>
    hasUsable && (isLocal ? chosen.local : chosen.cluster).length > 0;
  return {
    ...context,
    port,
    name: servicePortName(port),
    protocol: port.protocol.toLowerCase() as RuleProtocol,
    chains: servicePortChains(port),
    cluster: listed(chosen.cluster),
    local: listed(chosen.local),
    hasUsable,
    hasInternal: reached(port.isInternalPolicyLocal),
    hasExternal: reached(port.isExternalPolicyLocal),
    frontends,
    externalIps: addressesOf("external-ip"),
    loadBalancerIps,
    usesFirewall: hasUsable && loadBalancerIps.length > 0 && port.sourceRanges.length > 0,
  };
}

/** The chain for traffic to the cluster IP. */
export function internalChain({ port, chains }: RuleSubject): string {
  return port.isInternalPolicyLocal ? chains.local : chains.cluster;
}

/** Matches packets to this address at the service port. */
export function toAddress(
  { port, protocol }: RuleSubject,
  address: IpAddress,
  text: string,
): Match[] {
  return [
    destination(hostNetwork(address)),
    ofProtocol(protocol),
    comment(text),
    toPort(protocol, port.port),
  ];
}
