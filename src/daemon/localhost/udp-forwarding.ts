import { hostPort } from "../../base/ip.ts";
import type { LoopbackNodePort } from "../../plan/loopback-node-ports.ts";
import { UdpListener } from "../../userspace/udp-listener.ts";
import type { ForwarderParts, Forwarding } from "./forwarder.ts";

/**
 * Takes datagrams at one address and sends them to another, from a socket of its own for each client, so that IPVS keeps
 * a client at its endpoint. Rejects where it cannot listen.
 */
export async function openUdpForwarding(
  { clock, log, udpIdleMs }: ForwarderParts,
  { service, from, to }: Pick<LoopbackNodePort, "service" | "from" | "to">,
): Promise<Forwarding> {
  const target = { key: hostPort(to.address, to.port), ...to };
  const listener = new UdpListener(
    {
      ...{ clock, log: log.with({ service }), udpTimeoutMs: udpIdleMs() },
      balancer: { next: () => target },
    },
    { host: from.address, port: from.port },
  );
  try {
    await listener.open();
  } catch (error) {
    await listener.close();
    throw error;
  }
  return listener;
}
