import { type IpAddress, type IpFamily, parseIpAddress } from "../../base/ip.ts";
import { servicePortName } from "../../model/service-port.ts";
import type { PlanOptions } from "../../plan/options.ts";
import type { ServicePlan } from "../../plan/planner.ts";
import { TcpForwarder, type TcpForwarderOptions, type TcpForwarderParts } from "./tcp-forwarder.ts";

/** What forwards the connections of one port. */
export type Forwarder = Pick<TcpForwarder, "start" | "stop">;

export interface LocalhostNodePortsParts extends TcpForwarderParts {
  /** Absent: a {@link TcpForwarder}. */
  readonly makeForwarder?: (options: TcpForwarderOptions) => Forwarder;
}

interface NodePort {
  readonly service: string;
  readonly family: IpFamily;
  readonly port: number;
  /** Where the node serves it. */
  readonly addresses: readonly IpAddress[];
}

/**
 * Serves TCP node ports on 127.0.0.1 and ::1, by way of the same port at an address of the node. In this process, since
 * IPVS drops what comes from a loopback address and goes to another host, and IPv6 has no route for it either.
 */
export class LocalhostNodePorts {
  readonly #makeForwarder: (options: TcpForwarderOptions) => Forwarder;
  /** By family and Service. */
  readonly #wanted = new Map<string, readonly NodePort[]>();
  readonly #open = new Map<string, Forwarder>();
  #isStale = false;
  /** As text. */
  #servedNodeIps = "";

  constructor(parts: LocalhostNodePortsParts) {
    this.#makeForwarder = parts.makeForwarder ?? ((options) => new TcpForwarder(parts, options));
  }

  /** Takes note of what a plan wants served; nothing is opened or closed yet. */
  note(plan: ServicePlan): void {
    const key = `${plan.family} ${plan.service}`;
    const wanted = nodePortsOf(plan);
    if (wanted.length === 0 && !this.#wanted.has(key)) return;
    if (wanted.length === 0) this.#wanted.delete(key);
    else this.#wanted.set(key, wanted);
    this.#isStale = true;
  }

  /** Makes what was noted all that is served; what stays as it is keeps its connections. */
  async serve({ families }: Pick<PlanOptions, "families">): Promise<void> {
    const nodeIps = new Map([...families].map(([family, { nodeIp }]) => [family, nodeIp]));
    const nodeIpText = JSON.stringify([...nodeIps]);
    if (!this.#isStale && nodeIpText === this.#servedNodeIps) return;
    this.#isStale = false;
    this.#servedNodeIps = nodeIpText;
    const nodePorts = [...this.#wanted.values()].flat();
    const wanted = new Map(
      nodePorts.flatMap((one) => forwarderOf(one, nodeIps)).map((one) => [keyOf(one), one]),
    );
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
    await this.serve({ families: new Map() });
  }
}

function keyOf({ from, to }: TcpForwarderOptions): string {
  return `${from.address} ${from.port} ${to.address} ${to.port}`;
}

const loopback: Readonly<Record<IpFamily, IpAddress>> = {
  IPv4: parseIpAddress("127.0.0.1") as IpAddress,
  IPv6: parseIpAddress("::1") as IpAddress,
};

/** By way of the address by which the cluster knows the node: pods elsewhere find the way back to it. */
function forwarderOf(
  { service, family, port, addresses }: NodePort,
  nodeIps: ReadonlyMap<IpFamily, IpAddress>,
): readonly TcpForwarderOptions[] {
  const address = addresses.find((one) => one === nodeIps.get(family)) ?? addresses[0];
  if (address === undefined) return [];
  return [{ service, from: { address: loopback[family], port }, to: { address, port } }];
}

function nodePortsOf({ family, servicePorts }: ServicePlan): readonly NodePort[] {
  return servicePorts.flatMap(({ servicePort, virtualServers }) => {
    if (servicePort.protocol !== "TCP" || servicePort.nodePort === 0) return [];
    const addresses = virtualServers
      .filter(({ kind }) => kind === "node-port")
      .map(({ virtualServer }) => virtualServer.address);
    const service = servicePortName(servicePort);
    return [{ service, family, port: servicePort.nodePort, addresses }];
  });
}
