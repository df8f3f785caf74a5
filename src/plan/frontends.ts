import type { IpAddress } from "../base/ip.ts";
import type { Endpoint } from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { ChosenEndpoints } from "../model/topology.ts";
import type { FamilyOptions } from "./options.ts";

export type FrontendKind = "cluster-ip" | "external-ip" | "load-balancer" | "node-port";

/** One address and port under which a service port is reached. */
export interface Frontend {
  readonly kind: FrontendKind;
  readonly address: IpAddress;
  readonly port: number;
  /** The address goes to kube-ipvs0. A node's own address never does. */
  readonly isBound: boolean;
  /** Traffic policy Local applies. */
  readonly isLocal: boolean;
}

/**
 * Lists the frontends of a service port. Pure.
 *
 * | kind | address : port | bound to kube-ipvs0 | policy |
 * |---|---|---|---|
 * | cluster-ip | cluster IP : port | always | internal |
 * | external-ip | external IP : port | unless it is a node address | external |
 * | load-balancer | load-balancer IP : port | unless it is a node address | external |
 * | node-port | each node-port address : node port | never | external |
 */
export function frontendsOf(port: ServicePort, options: FamilyOptions): readonly Frontend[] {
  const isForeignToNode = (address: IpAddress): boolean => !options.nodeAddresses.has(address);
  const external = (kind: FrontendKind, address: IpAddress): Frontend => ({
    kind,
    address,
    port: port.port,
    isBound: isForeignToNode(address),
    isLocal: port.isExternalPolicyLocal,
  });
  const clusterIp: Frontend = {
    kind: "cluster-ip",
    address: port.clusterIp,
    port: port.port,
    isBound: true,
    isLocal: port.isInternalPolicyLocal,
  };
  const nodePorts = port.nodePort === 0 ? [] : options.nodePortAddresses;
  return [
    clusterIp,
    ...port.externalIps.map((address) => external("external-ip", address)),
    ...port.loadBalancerIps.map((address) => external("load-balancer", address)),
    ...nodePorts.map(
      (address): Frontend => ({
        kind: "node-port",
        address,
        port: port.nodePort,
        isBound: false,
        isLocal: port.isExternalPolicyLocal,
      }),
    ),
  ];
}

/**
 * The endpoints behind a frontend. With policy Local and no endpoint here the cluster's endpoints are
 * used, as upstream's IPVS mode does: clients on this node can then still reach the address.
 */
export function endpointsFor(frontend: Frontend, chosen: ChosenEndpoints): readonly Endpoint[] {
  return frontend.isLocal && chosen.local.length > 0 ? chosen.local : chosen.cluster;
}
