import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { familyOf, hostPort, type IpAddress } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import type { Conntrack } from "../../kernel/kernel.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import { loopbackAddresses } from "../../plan/loopback-node-ports.ts";
import { ConntrackCleaner, KnownAnswers } from "../../reconcile/kinds/stale-flows.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import { countConntrackPass } from "../report/loop-reporter.ts";

export interface ListenerFlowsParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly conntrack: Conntrack;
  readonly metrics: Pick<Metrics, "conntrackDuration" | "conntrackDeleted">;
}

/**
 * Removes stale conntrack entries for UDP flows that rules redirected to a socket. While a client keeps its source
 * port, its conntrack entry remains. The entry may refer to the port of a closed listener, such as an earlier
 * process's.
 */
export class ListenerFlows {
  readonly #parts: ListenerFlowsParts;
  readonly #cleaner: ConntrackCleaner;
  readonly #answers = new KnownAnswers();

  constructor(parts: ListenerFlowsParts) {
    this.#parts = parts;
    this.#cleaner = new ConntrackCleaner(parts.conntrack, parts.clock);
  }

  /**
   * Deletes entries of changed destinations that do not lead to these listeners. If rules were missing, does so for
   * all destinations. Never rejects: failed deletions are retried in the next call.
   */
  async follow(
    open: readonly OpenListener[],
    nodeAddresses: readonly IpAddress[],
    wereRulesMissing: boolean,
  ): Promise<void> {
    const { log, metrics } = this.#parts;
    const wanted = udpDestinations(open, nodeAddresses);
    try {
      await this.#cleaner.clean(this.#answers.changed(wanted, wereRulesMissing), (pass) =>
        countConntrackPass(pass, metrics),
      );
    } catch (error) {
      log.warn("Cannot delete stale conntrack entries, retrying", { err: errorText(error) });
    }
  }
}

/**
 * UDP destinations. `answers` are the addresses and ports from which replies may come: the socket at a
 * node address or, for local processes, at loopback. An earlier mode may also have sent a flow to an endpoint,
 * so all serving endpoints are included.
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
