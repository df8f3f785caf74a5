/** Names of the chains of service ports and endpoints, by which kube-proxy's users know them. Pure. */
import { nameHash } from "../../base/name-hash.ts";
import { type ServicePort, servicePortName } from "../../model/service-port.ts";

/** What names the chains of a service port. */
export type ChainOwner = Pick<ServicePort, "service" | "portName" | "protocol">;

export interface ServicePortChains {
  /** Policy Cluster. */
  readonly cluster: string;
  /** Policy Local. */
  readonly local: string;
  /** Traffic to node ports, external and load-balancer IPs. */
  readonly external: string;
  /** Source ranges of a load balancer. */
  readonly firewall: string;
}

/** KUBE-SVC-, KUBE-SVL-, KUBE-EXT- and KUBE-FW- with one and the same ending. */
export function servicePortChains(owner: ChainOwner): ServicePortChains {
  const ending = nameHash(identityOf(owner));
  return {
    cluster: `KUBE-SVC-${ending}`,
    local: `KUBE-SVL-${ending}`,
    external: `KUBE-EXT-${ending}`,
    firewall: `KUBE-FW-${ending}`,
  };
}

/** KUBE-SEP-: one endpoint of one service port; `endpointKey` is `address:port`. */
export function endpointChain(owner: ChainOwner, endpointKey: string): string {
  return `KUBE-SEP-${nameHash(identityOf(owner) + endpointKey)}`;
}

function identityOf(owner: ChainOwner): string {
  return servicePortName(owner) + owner.protocol.toLowerCase();
}
