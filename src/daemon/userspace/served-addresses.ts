import type { IpAddress } from "../../base/ip.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { ListenRule } from "../../userspace/listen-addresses.ts";
import type { ServedAddress } from "../operator/daemon-view.ts";

/** Where clients reach a service port: by rules at all its addresses, else where its listener stands. Pure. */
export function servedAddresses(
  port: ServicePort,
  { bindAddress, isRedirected }: ListenRule,
): readonly ServedAddress[] {
  const { clusterIp, externalIps, loadBalancerIps, nodePort } = port;
  const nodePorts: readonly ServedAddress[] =
    nodePort === 0 ? [] : [{ kind: "node-port", port: nodePort }];
  const at = (kind: ServedAddress["kind"], addresses: readonly IpAddress[]): ServedAddress[] =>
    addresses.map((address) => ({ kind, address, port: port.port }));
  if (isRedirected) {
    return [
      ...at("cluster-ip", [clusterIp]),
      ...at("external-ip", externalIps),
      ...at("load-balancer", loadBalancerIps),
      ...nodePorts,
    ];
  }
  const isAny = bindAddress === "0.0.0.0" || bindAddress === "::";
  const [own = { kind: "cluster-ip", port: port.port } as const] = nodePorts;
  return [isAny ? own : { ...own, address: bindAddress }];
}
