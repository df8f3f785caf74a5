import { familyOf, type IpAddress, isWildcard } from "../../base/ip.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { ClaimAges } from "./claim-ages.ts";
import { claimKey } from "./claimed-keys.ts";

/** A socket of a process of the node. */
export interface NodeSocket {
  readonly protocol: "TCP" | "UDP";
  /** Unspecified: every address; that of IPv6 for IPv4, too. */
  readonly address: IpAddress;
  readonly port: number;
}

/**
 * Refuses external and load-balancer IPs that are the node's own at ports where a process of the node listens: kubelet, the
 * API server, etcd, sshd. That is decided when the claim arrives. An admitted claim stays admitted, also over a restart.
 */
export class PortAdmission {
  readonly #ages: ClaimAges;
  readonly #listSockets: () => readonly NodeSocket[];
  #sockets: readonly NodeSocket[] | undefined;

  /** `listSockets` is called once after each {@link refresh}, and only if a Service names an address of the node. */
  constructor(ages: ClaimAges, listSockets: () => readonly NodeSocket[]) {
    this.#ages = ages;
    this.#listSockets = listSockets;
  }

  /** Sockets may be others than before. */
  refresh(): void {
    this.#sockets = undefined;
  }

  /** The service port with the addresses of the node that it must not have. */
  admit(port: ServicePort, nodeAddresses: ReadonlySet<IpAddress>): ServicePort {
    const { externalIps, loadBalancerIps } = port;
    if (externalIps.length + loadBalancerIps.length === 0) return port;
    const named = [...externalIps, ...loadBalancerIps].filter((one) => nodeAddresses.has(one));
    if (named.length === 0) return port;
    const refusedAddresses = named.filter((address) => this.#isRefused(port, address));
    return refusedAddresses.length === 0 ? port : { ...port, refusedAddresses };
  }

  #isRefused(port: ServicePort, address: IpAddress): boolean {
    const key = claimKey(port, { address, port: port.port });
    const isRefused =
      !this.#ages.isKnown(key, port) &&
      (this.#ages.wasRefused(key, port) || this.#isListened(port, address));
    this.#ages.noteRefused(key, port, isRefused);
    return isRefused;
  }

  #isListened({ protocol, port }: ServicePort, wanted: IpAddress): boolean {
    this.#sockets ??= this.#listSockets();
    return this.#sockets.some(
      ({ protocol: ofSocket, address, port: number }) =>
        number === port && ofSocket === protocol && covers(address, wanted),
    );
  }
}

function covers(listening: IpAddress, address: IpAddress): boolean {
  if (!isWildcard(listening)) return listening === address;
  return familyOf(listening) === "IPv6" || familyOf(address) === "IPv4";
}
