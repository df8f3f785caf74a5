/** Loopback node ports, for `kubeIpvs.localhostNodePorts`. Pure. */
import { type IpAddress, type IpFamily, parseIpAddress } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import { type ServicePort, servicePortName } from "../model/service-port.ts";
import type { ServicePlan } from "./planner.ts";

/** The protocols for which Node.js has sockets. */
export type ForwardedProtocol = Extract<Protocol, "TCP" | "UDP">;

export interface AddressPort {
  readonly address: IpAddress;
  readonly port: number;
}

/** A node port on a loopback address, and the node address to which this process forwards it. */
export interface LoopbackNodePort {
  /** The service port, for messages. */
  readonly service: string;
  readonly servicePort: ServicePort;
  readonly protocol: ForwardedProtocol;
  readonly from: AddressPort;
  readonly to: AddressPort;
}

export const loopbackAddresses: Readonly<Record<IpFamily, IpAddress>> = {
  IPv4: parseIpAddress("127.0.0.1") as IpAddress,
  IPv6: parseIpAddress("::1") as IpAddress,
};

/** Prefers the node IP as the address to forward to, because pods on other nodes have a route back to it. */
export function loopbackNodePorts(
  { family, servicePorts }: Pick<ServicePlan, "family" | "servicePorts">,
  nodeIp: IpAddress | undefined,
): readonly LoopbackNodePort[] {
  return servicePorts.flatMap(({ servicePort, virtualServers }) => {
    const { protocol, nodePort: port } = servicePort;
    if (protocol === "SCTP" || port === 0) return [];
    const addresses = virtualServers
      .filter(({ kind }) => kind === "node-port")
      .map(({ virtualServer }) => virtualServer.address);
    const address = addresses.find((one) => one === nodeIp) ?? addresses[0];
    if (address === undefined) return [];
    const from = { address: loopbackAddresses[family], port };
    const service = servicePortName(servicePort);
    return [{ service, servicePort, protocol, from, to: { address, port } }];
  });
}
