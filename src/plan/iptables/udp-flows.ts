import type { HostPort, IpAddress } from "../../base/ip.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import { type ServerKey, virtualServerKey } from "../../state/virtual-server.ts";
import type { Frontend } from "../frontends.ts";
import { loopbackAddresses } from "../loopback-node-ports.ts";
import type { RuleSubject } from "./rule-subject.ts";

/** An address and port to which clients send UDP packets. */
export interface UdpPlace {
  /** The key that {@link virtualServerKey} returns. */
  readonly key: ServerKey;
  readonly address: IpAddress;
  readonly port: number;
}

/**
 * A service port's tracked UDP flows. UDP flows never end explicitly: a client that keeps its source port keeps its
 * conntrack entry, even if the endpoint in that entry no longer exists.
 */
export interface UdpFlows {
  readonly destinations: readonly UdpPlace[];
  /** `address:port` of every endpoint that is still serving. Flows to them may continue. */
  readonly answers: ReadonlySet<HostPort>;
}

/** Undefined for other protocols, because their connections end by themselves. */
export function udpFlowsOf(
  { port, frontends, own }: Pick<RuleSubject, "port" | "frontends" | "own">,
  endpoints: readonly Endpoint[],
): UdpFlows | undefined {
  if (port.protocol !== "UDP") return undefined;
  const serving = endpoints.filter(({ isReady, isServing }) => isReady || isServing);
  const onLoopback: readonly Pick<Frontend, "address" | "port">[] =
    own.servesLoopback && port.nodePort !== 0
      ? [{ address: loopbackAddresses[port.family], port: port.nodePort }]
      : [];
  return {
    destinations: [...frontends, ...onLoopback].map(({ address, port: number }) => ({
      key: virtualServerKey({ protocol: "UDP", address, port: number }),
      address,
      port: number,
    })),
    answers: new Set(serving.map(({ key }) => key)),
  };
}
