import { type IpAddress, type IpFamily, parseIpAddress } from "../../base/ip.ts";
import { servicePortName } from "../../model/service-port.ts";
import type { ServicePlan } from "../../plan/planner.ts";
import { TcpForwarder, type TcpForwarderOptions, type TcpForwarderParts } from "./tcp-forwarder.ts";

/** What forwards the connections of one port. */
export type Forwarder = Pick<TcpForwarder, "start" | "stop">;

export interface LocalhostNodePortsParts extends TcpForwarderParts {
  /** Absent: a {@link TcpForwarder}. */
  readonly makeForwarder?: (options: TcpForwarderOptions) => Forwarder;
}

/**
 * Serves TCP node ports on 127.0.0.1 and ::1, by way of the same port at an address of the node. In this process, since
 * IPVS drops what comes from a loopback address and goes to another host, and IPv6 has no route for it either.
 */
export class LocalhostNodePorts {
  readonly #makeForwarder: (options: TcpForwarderOptions) => Forwarder;
  /** By family and Service. */
  readonly #wanted = new Map<string, readonly TcpForwarderOptions[]>();
  readonly #open = new Map<string, Forwarder>();
  #isStale = false;

  constructor(parts: LocalhostNodePortsParts) {
    this.#makeForwarder = parts.makeForwarder ?? ((options) => new TcpForwarder(parts, options));
  }

  /** Takes note of what a plan wants served; nothing is opened or closed yet. */
  note(plan: ServicePlan): void {
    const key = `${plan.family} ${plan.service}`;
    const wanted = forwardersOf(plan);
    if (wanted.length === 0 && !this.#wanted.has(key)) return;
    if (wanted.length === 0) this.#wanted.delete(key);
    else this.#wanted.set(key, wanted);
    this.#isStale = true;
  }

  /** Makes what was noted all that is served; what stays as it is keeps its connections. */
  async serve(): Promise<void> {
    if (!this.#isStale) return;
    this.#isStale = false;
    const wanted = new Map([...this.#wanted.values()].flat().map((one) => [keyOf(one), one]));
    const closing = [...this.#open].filter(([key]) => !wanted.has(key));
    for (const [key] of closing) this.#open.delete(key);
    await Promise.all(closing.map(([, forwarder]) => forwarder.stop()));
    for (const [key, options] of wanted) {
      if (this.#open.has(key)) continue;
      const forwarder = this.#makeForwarder(options);
      this.#open.set(key, forwarder);
      await forwarder.start();
    }
  }

  async stop(): Promise<void> {
    this.#wanted.clear();
    this.#isStale = true;
    await this.serve();
  }
}

function keyOf({ from, to }: TcpForwarderOptions): string {
  return `${from.address} ${from.port} ${to.address} ${to.port}`;
}

const loopback: Readonly<Record<IpFamily, IpAddress>> = {
  IPv4: parseIpAddress("127.0.0.1") as IpAddress,
  IPv6: parseIpAddress("::1") as IpAddress,
};

/** One for each TCP node port; its virtual servers at the node's addresses are alike, so the first one will do. */
function forwardersOf({ family, servicePorts }: ServicePlan): readonly TcpForwarderOptions[] {
  return servicePorts.flatMap(({ servicePort, virtualServers }) => {
    const nodePort = virtualServers.find(({ kind }) => kind === "node-port");
    if (nodePort === undefined || servicePort.protocol !== "TCP") return [];
    const { address, port } = nodePort.virtualServer;
    const from = { address: loopback[family], port };
    return [{ service: servicePortName(servicePort), from, to: { address, port } }];
  });
}
