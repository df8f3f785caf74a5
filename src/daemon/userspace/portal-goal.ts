import { familyOf, hostPort, type IpAddress } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import { loopbackAddresses } from "../../plan/loopback-node-ports.ts";
import type { TablesGoal } from "../../reconcile/iptables/tables-reconciler.ts";
import type { SharedChain } from "../../reconcile/iptables/write-in-stages.ts";
import { chainKey } from "../../state/rule.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import { portalRules } from "../../userspace/portal-rules.ts";
import { byKey } from "../../userspace/service-listeners.ts";

/** All chains of userspace mode contain rules of many Services. */
export const sharedPortalChains: readonly SharedChain[] = portalRules("IPv4", []).chains.map(
  ({ table, name }) => ({ key: chainKey(table, name), table, name }),
);

/**
 * A goal whose rules redirect to these listeners. `open` returns the listeners with the addresses that their Services
 * own, and is called again for each family.
 */
export function portalGoal(
  open: () => readonly OpenListener[],
  nodeAddresses: readonly IpAddress[],
  hooks: Pick<TablesGoal, "findOwners" | "onWritten">,
): TablesGoal {
  return {
    ...hooks,
    *ruleSetInSteps(family) {
      const inOrder = open().toSorted((one, other) => byKey(one.wanted, other.wanted));
      yield;
      return { ...portalRules(family, inOrder), ofServices: { others: none } };
    },
    desired: { rebuild() {}, udpDestinations: () => udpDestinations(open(), nodeAddresses) },
  };
}

/**
 * UDP destinations. `answers` are the addresses and ports from which replies may come: those of the socket at node
 * addresses and, for local processes, at loopback. All serving endpoints are included as well, because an earlier mode
 * may have sent a flow to an endpoint.
 */
function udpDestinations(
  open: readonly OpenListener[],
  nodeAddresses: readonly IpAddress[],
): readonly UdpDestination[] {
  return open.flatMap(({ wanted, localPorts }): readonly UdpDestination[] => {
    const { family, protocol, addresses, nodePort, serving } = wanted;
    if (protocol !== "UDP") return none;
    const loopback = loopbackAddresses[family];
    const ofNode = nodeAddresses.filter((address) => familyOf(address) === family);
    const answers = new Set([
      ...ofNode.map((address) => hostPort(address, localPorts.port)),
      hostPort(loopback, localPorts.portOnLoopback),
      ...serving,
    ]);
    const at = (address: IpAddress, port: number): UdpDestination => {
      return { key: virtualServerKey({ protocol, address, port }), address, port, answers };
    };
    return [
      ...addresses.map((address) => at(address, wanted.port)),
      ...(nodePort === 0 ? none : [...ofNode, loopback].map((address) => at(address, nodePort))),
    ];
  });
}
