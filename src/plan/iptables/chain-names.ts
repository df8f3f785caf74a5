/** Names of service port and endpoint chains, the same as kube-proxy's. Pure. */
import { nameHash } from "../../base/name-hash.ts";
import { type ServicePort, servicePortName } from "../../model/service-port.ts";

/** The values that determine a service port's chain names. */
export type ChainOwner = Pick<ServicePort, "service" | "portName" | "protocol">;

export interface ServicePortChains {
  /** Chain for traffic policy Cluster. */
  readonly cluster: string;
  /** Chain for traffic policy Local. */
  readonly local: string;
  /** Chain for traffic to node ports, external and load-balancer IPs. */
  readonly external: string;
  /** Chain for the source ranges of a load balancer. */
  readonly firewall: string;
}

/** The chain names of a service port: KUBE-SVC-, KUBE-SVL-, KUBE-EXT- and KUBE-FW- with the same suffix. */
export function servicePortChains(owner: ChainOwner): ServicePortChains {
  const ending = nameHash(identityOf(owner));
  return {
    cluster: `KUBE-SVC-${ending}`,
    local: `KUBE-SVL-${ending}`,
    external: `KUBE-EXT-${ending}`,
    firewall: `KUBE-FW-${ending}`,
  };
}

/** The KUBE-SEP- chain of one endpoint of one service port. `endpointKey` is `address:port`. */
export function endpointChain(owner: ChainOwner, endpointKey: string): string {
  return `KUBE-SEP-${nameHash(identityOf(owner) + endpointKey)}`;
}

function identityOf(owner: ChainOwner): string {
  return servicePortName(owner) + owner.protocol.toLowerCase();
}
