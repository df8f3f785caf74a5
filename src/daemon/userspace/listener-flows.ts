import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { familyOf, hostPort, type IpAddress } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import { sameSet } from "../../base/same-set.ts";
import type { Conntrack } from "../../kernel/kernel.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import { loopbackAddresses } from "../../plan/loopback-node-ports.ts";
import { ConntrackCleaner, flowCheckOf } from "../../reconcile/kinds/stale-flows.ts";
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
 * Tracked UDP flows that rules led to a socket. A client that keeps its source port keeps its conntrack entry, and with
 * it the port of a listener that is gone, such as that of an earlier process.
 */
export class ListenerFlows {
  readonly #parts: ListenerFlowsParts;
  readonly #cleaner: ConntrackCleaner;
  #known: ReadonlyMap<string, UdpDestination> = new Map();

  constructor(parts: ListenerFlowsParts) {
    this.#parts = parts;
    this.#cleaner = new ConntrackCleaner(parts.conntrack, parts.clock);
  }

  /**
   * Deletes the flows that lead elsewhere than to these, of destinations that changed; of all where rules were missing.
   * Never rejects: what could not be done is retried with the next call.
   */
  async follow(
    open: readonly OpenListener[],
    nodeAddresses: readonly IpAddress[],
    wereRulesMissing: boolean,
  ): Promise<void> {
    const wanted = udpDestinations(open, nodeAddresses);
    const known = wereRulesMissing ? new Map<string, UdpDestination>() : this.#known;
    const changed = [...wanted.values()].filter(
      ({ key, answers }) => !sameSet(answers, known.get(key)?.answers ?? new Set()),
    );
    const gone = [...this.#known.values()].filter(({ key }) => !wanted.has(key));
    this.#known = wanted;
    const { log, metrics } = this.#parts;
    const unanswered = gone.map((one) => ({ ...one, answers: new Set<string>() }));
    try {
      await this.#cleaner.clean([...changed, ...unanswered].map(flowCheckOf), (pass) =>
        countConntrackPass(pass, metrics),
      );
    } catch (error) {
      log.warn("Cannot delete stale conntrack entries, retrying", { err: errorText(error) });
    }
  }
}

/**
 * By key. An answer comes from the socket: on an address of the node, or on loopback for its own processes; or, where an
 * earlier mode sent a flow there, from an endpoint that still serves.
 */
function udpDestinations(
  open: readonly OpenListener[],
  nodeAddresses: readonly IpAddress[],
): ReadonlyMap<string, UdpDestination> {
  const destinations = open.flatMap(({ wanted, localPorts }): readonly UdpDestination[] => {
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
  return new Map(destinations.map((one) => [one.key, one]));
}
