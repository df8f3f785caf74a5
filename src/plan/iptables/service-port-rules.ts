/** The rules of one service port: its own chains, and its part in the chains that all share. Pure. */
import { none } from "../../base/none.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { chooseEndpoints, noLocalEndpoints, type TrafficPolicy } from "../../model/topology.ts";
import type { Chain } from "../../state/rule.ts";
import { type ClaimedKey, claimsOf } from "../claims/claimed-keys.ts";
import { type ReservedAddress, reservedAddresses } from "../frontends.ts";
import { ownChains } from "./own-chains.ts";
import { type IptablesContext, ruleSubject } from "./rule-subject.ts";
import { rulesInSharedChains } from "./rules-in-shared-chains.ts";
import type { SharedRule } from "./shared-chains.ts";
import { type UdpFlows, udpFlowsOf } from "./udp-flows.ts";

/** All that one service port wants in the tables of its family. */
export interface ServicePortRules {
  readonly servicePort: ServicePort;
  /** Chains of nat that are its own. */
  readonly chains: readonly Chain[];
  readonly shared: readonly SharedRule[];
  /** External and load-balancer IPs that the node needs. */
  readonly reserved: readonly ReservedAddress[];
  /** Addresses and ports that its rules are about. */
  readonly claims: readonly ClaimedKey[];
  /** Of all endpoints, whether they are used here or not. */
  readonly endpointCount: number;
  /** The service port has traffic policy Local, usable endpoints somewhere, and none here. */
  readonly hasNoLocalEndpoints: Readonly<Record<TrafficPolicy, boolean>>;
  /** Which conntrack entries may stay; UDP only. */
  readonly udpFlows?: UdpFlows;
}

/** Plans one service port. Equal input gives equal output, and nothing else is looked at. */
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
    reserved: reservedAddresses(port, context.family),
    claims: claimsOf(port, subject.frontends),
    endpointCount: endpoints.length,
    hasNoLocalEndpoints: noLocalEndpoints(port, chosen),
    ...(flows === undefined ? {} : { udpFlows: flows }),
  };
}
