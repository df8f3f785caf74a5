/** One service port's rules: its own chains, and its rules in shared chains. Pure. */
import { none } from "../../base/none.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { chooseEndpoints, noLocalEndpoints, type TrafficPolicy } from "../../model/topology.ts";
import type { Chain } from "../../state/rule.ts";
import { type ClaimedKey, claimsOf } from "../claims/claimed-keys.ts";
import { type ReservedAddress, unservedAddresses } from "../frontends.ts";
import { ownChains } from "./own-chains.ts";
import { type IptablesContext, ruleSubject } from "./rule-subject.ts";
import { rulesInSharedChains } from "./rules-in-shared-chains.ts";
import type { SharedRule } from "./shared-chains.ts";
import { type UdpFlows, udpFlowsOf } from "./udp-flows.ts";

/** The desired rules of one service port in its family's tables. */
export interface ServicePortRules {
  readonly servicePort: ServicePort;
  /** The service port's own chains in nat. */
  readonly chains: readonly Chain[];
  readonly shared: readonly SharedRule[];
  /** External and load-balancer IPs without rules. */
  readonly reserved: readonly ReservedAddress[];
  /** Addresses and ports that the rules match. */
  readonly claims: readonly ClaimedKey[];
  /** Number of all endpoints, whether or not this node uses them. */
  readonly endpointCount: number;
  /** True for a policy that is Local if usable endpoints exist but none are on this node. */
  readonly hasNoLocalEndpoints: Readonly<Record<TrafficPolicy, boolean>>;
  /** Which conntrack entries may remain. UDP only. */
  readonly udpFlows?: UdpFlows;
}

/** Plans one service port. Pure: the result depends only on the arguments. */
export function planServicePortRules(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  context: IptablesContext,
): ServicePortRules {
  const chosen = chooseEndpoints(endpoints, port, context.options.shared.place);
  const subject = ruleSubject(port, chosen, context);
  const flows = udpFlowsOf(subject, endpoints);
  return {
    servicePort: port,
    chains: subject.hasUsable ? ownChains(subject) : none,
    shared: rulesInSharedChains(subject),
    reserved: unservedAddresses(port, context.family),
    claims: claimsOf(port, subject.frontends),
    endpointCount: endpoints.length,
    hasNoLocalEndpoints: noLocalEndpoints(port, chosen),
    ...(flows === undefined ? {} : { udpFlows: flows }),
  };
}
