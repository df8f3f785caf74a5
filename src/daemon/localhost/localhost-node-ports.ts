import type { ServiceName } from "../../api/objects.ts";
import type { IpFamily } from "../../base/ip.ts";
import { type LoopbackNodePort, loopbackNodePorts } from "../../plan/loopback-node-ports.ts";
import type { PlanOptions } from "../../plan/options.ts";
import type { ServicePlan } from "../../plan/planner.ts";
import { Forwarder, type ForwarderOptions } from "./forwarder.ts";

export interface LocalhostNodePortsOptions extends ForwarderOptions {
  /** Defaults to a {@link Forwarder}. */
  readonly makeForwarder?: (nodePort: LoopbackNodePort) => Pick<Forwarder, "start" | "stop">;
}

/** The service ports with node ports of one Service and family. */
type Wanted = Pick<ServicePlan, "family" | "servicePorts">;

/**
 * Serves node ports on 127.0.0.1 and ::1 by forwarding to the same port at an address of the node. This process
 * forwards, because IPVS drops packets from a loopback address to another host, and IPv6 has no route for them.
 */
export class LocalhostNodePorts {
  readonly #makeForwarder: NonNullable<LocalhostNodePortsOptions["makeForwarder"]>;
  /** Services that have node ports, by family and name. */
  readonly #wanted = new Map<`${IpFamily} ${ServiceName}`, Wanted>();
  readonly #open = new Map<string, Pick<Forwarder, "start" | "stop">>();
  #isStale = false;
  /** Node IPs as of the last {@link serve}, as JSON. */
  #servedNodeIps = "";

  constructor(options: LocalhostNodePortsOptions) {
    this.#makeForwarder = options.makeForwarder ?? ((nodePort) => new Forwarder(options, nodePort));
  }

  /** Records the node ports of a Service plan. Opens and closes nothing until {@link serve}. */
  note({ family, service, servicePorts }: ServicePlan): void {
    const key = `${family} ${service}` as const;
    const wanted = servicePorts.filter(({ servicePort }) => servicePort.nodePort !== 0);
    if (wanted.length === 0 && !this.#wanted.has(key)) return;
    if (wanted.length === 0) this.#wanted.delete(key);
    else this.#wanted.set(key, { family, servicePorts: wanted });
    this.#isStale = true;
  }

  /**
   * Opens and closes forwarders so that exactly the recorded node ports are served. Unchanged ones keep their
   * connections.
   */
  async serve({ families }: Pick<PlanOptions, "families">): Promise<void> {
    const nodeIps = new Map([...families].map(([family, { nodeIp }]) => [family, nodeIp]));
    const nodeIpText = JSON.stringify([...nodeIps]);
    if (!this.#isStale && nodeIpText === this.#servedNodeIps) return;
    this.#isStale = false;
    this.#servedNodeIps = nodeIpText;
    const wanted = new Map(
      [...this.#wanted.values()]
        .flatMap((one) => loopbackNodePorts(one, nodeIps.get(one.family)))
        .map((one) => [keyOf(one), one]),
    );
    const closing = [...this.#open].filter(([key]) => !wanted.has(key));
    for (const [key] of closing) this.#open.delete(key);
    await Promise.all(closing.map(([, forwarder]) => forwarder.stop()));
    for (const [key, nodePort] of wanted) {
      if (this.#open.has(key)) continue;
      const forwarder = this.#makeForwarder(nodePort);
      this.#open.set(key, forwarder);
      await forwarder.start();
    }
  }

  async stop(): Promise<void> {
    this.#wanted.clear();
    this.#isStale = true;
    await this.serve({ families: new Map() });
  }
}

function keyOf({ protocol, from, to }: LoopbackNodePort): string {
  return `${protocol} ${from.address} ${from.port} ${to.address} ${to.port}`;
}
