import { familyOf, type IpAddress, isWildcard } from "../../base/ip.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { ClaimAges } from "./claim-ages.ts";
import { claimKey } from "./claimed-keys.ts";

/** A listening socket of a local process. */
export interface NodeSocket {
  readonly protocol: "TCP" | "UDP";
  /** The unspecified address means every address. The unspecified IPv6 address also includes IPv4. */
  readonly address: IpAddress;
  readonly port: number;
}

/**
 * Rejects an external or load-balancer IP if it is a node address and a local process is listening on the port, for
 * example kubelet, the API server, etcd or sshd. Claims are checked when they appear. An admitted claim remains
 * admitted, even after a restart.
 */
export class PortAdmission {
  readonly #ages: ClaimAges;
  readonly #listSockets: () => readonly NodeSocket[];
  #sockets: readonly NodeSocket[] | undefined;

  /** `listSockets` is called at most once per {@link refresh}, and only if a Service names a node address. */
  constructor(ages: ClaimAges, listSockets: () => readonly NodeSocket[]) {
    this.#ages = ages;
    this.#listSockets = listSockets;
  }

  /** Discards the cached list of sockets. */
  refresh(): void {
    this.#sockets = undefined;
  }

  /** Adds `unservedAddresses`, the node addresses at which the service port must not be served. */
  admit(port: ServicePort, nodeAddresses: ReadonlySet<IpAddress>): ServicePort {
    const { externalIps, loadBalancerIps } = port;
    if (externalIps.length + loadBalancerIps.length === 0) return port;
    const named = [...externalIps, ...loadBalancerIps].filter((one) => nodeAddresses.has(one));
    if (named.length === 0) return port;
    const unservedAddresses = named.filter((address) => this.#isRefused(port, address));
    return unservedAddresses.length === 0 ? port : { ...port, unservedAddresses };
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
