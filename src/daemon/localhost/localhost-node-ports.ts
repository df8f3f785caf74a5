import type { ServiceName } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import { hostPort, type IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import {
  type LoopbackNodePort,
  loopbackAddresses,
  loopbackNodePorts,
} from "../../plan/loopback-node-ports.ts";
import type { PlanOptions } from "../../plan/options.ts";
import type { ServicePlan } from "../../plan/planner.ts";
import { UserspaceProxier } from "../../userspace/proxier.ts";
import type { ServiceListener } from "../../userspace/service-listeners.ts";

export interface LocalhostNodePortsOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** How long a UDP client must be idle before it may be sent to a different endpoint. */
  readonly udpIdleMs: () => number;
}

/**
 * Maximum number of simultaneous connections and UDP clients per node port. Only local processes connect, so a larger
 * number indicates a bug in one of them.
 */
const maxConnections = 4_096;
/**
 * Connections are closed together with their node port, because this process forwards them only while the port is
 * served.
 */
const drainMs = 1;

/** The service ports of one Service and family that have node ports. */
type Wanted = Pick<ServicePlan, "family" | "servicePorts">;

/**
 * Serves node ports on 127.0.0.1 and ::1 by forwarding to the same port on a node address. This process itself forwards
 * the traffic, because IPVS drops packets from a loopback address to another host, and IPv6 has no route for them. Each
 * UDP client has its own socket, which keeps it on the same endpoint.
 */
export class LocalhostNodePorts {
  readonly #proxier: UserspaceProxier;
  /** Services that have node ports, by family and name. */
  readonly #wanted = new Map<`${IpFamily} ${ServiceName}`, Wanted>();
  /** Service ports with listeners. */
  #served: ReadonlySet<string> = new Set();
  #isStale = false;
  /** Node IPs as of the last {@link serve}, as JSON. */
  #servedNodeIps = "";

  constructor({ clock, log, udpIdleMs }: LocalhostNodePortsOptions) {
    const unlimited = Number.POSITIVE_INFINITY;
    this.#proxier = new UserspaceProxier({
      ...{ clock, log, drainMs },
      get udpTimeoutMs() {
        return udpIdleMs();
      },
      addressOf: ({ family, nodePort }) => ({ host: loopbackAddresses[family], port: nodePort }),
      quotas: {
        connections: { total: unlimited, perService: maxConnections },
        listenerSockets: { total: unlimited, perService: unlimited },
      },
    });
  }

  /** Records a Service plan's node ports. Listeners are opened and closed only by {@link serve}. */
  note({ family, service, servicePorts }: ServicePlan): void {
    const key = `${family} ${service}` as const;
    const wanted = servicePorts.filter(({ servicePort }) => servicePort.nodePort !== 0);
    if (wanted.length === 0 && !this.#wanted.has(key)) return;
    if (wanted.length === 0) this.#wanted.delete(key);
    else this.#wanted.set(key, { family, servicePorts: wanted });
    this.#isStale = true;
  }

  /** Opens and closes listeners so that exactly the recorded node ports are served. */
  async serve({ families }: Pick<PlanOptions, "families">): Promise<void> {
    const nodeIps = new Map([...families].map(([family, { nodeIp }]) => [family, nodeIp]));
    const nodeIpText = JSON.stringify([...nodeIps]);
    if (!this.#isStale && nodeIpText === this.#servedNodeIps) return;
    this.#isStale = false;
    this.#servedNodeIps = nodeIpText;
    const listeners = [...this.#wanted.values()].flatMap((one) =>
      loopbackNodePorts(one, nodeIps.get(one.family)).map((port) => listenerOf(one.family, port)),
    );
    const wanted = Map.groupBy(listeners, ({ service }) => service);
    const gone = [...this.#served].filter((service) => !wanted.has(service));
    this.#served = new Set(wanted.keys());
    for (const service of gone) wanted.set(service, []);
    await this.#proxier.replaceServices(wanted);
  }

  async stop(): Promise<void> {
    await this.#proxier.stop();
  }
}

function listenerOf(
  family: IpFamily,
  { service, servicePort, protocol, from, to }: LoopbackNodePort,
): ServiceListener {
  const backend = { key: hostPort(to.address, to.port), ...to };
  return {
    ...{ family, protocol, service, servicePort, portName: service },
    key: `${family} ${service}/${protocol}`,
    ...{ frontends: [], reserved: [], addresses: [], isNodePortRestricted: false },
    ...{ port: servicePort.port, nodePort: from.port, affinitySeconds: 0 },
    backends: [backend],
    serving: new Set([backend.key]),
  };
}
