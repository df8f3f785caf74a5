import { familyOf, type IpAddress, isWildcard, wildcardAddresses } from "../base/ip.ts";
import type { ListenAddress } from "./listener.ts";
import type { ServiceListener } from "./service-listeners.ts";

/** Determines the addresses and ports of listeners. */
export interface ListenRule {
  /** `--bind-address`. A wildcard means all addresses of both families. */
  readonly bindAddress: IpAddress;
  /** Whether rules redirect virtual IPs and node ports to the listeners. */
  readonly isRedirected: boolean;
}

/**
 * The address and port to listen on for a service port. With rules, this is a free port on all addresses, because a
 * redirected packet arrives at the address of its interface. Without rules, it is `bindAddress` with the node port or,
 * if there is none, the Service's own port. Undefined if `bindAddress` belongs to the other family. Pure.
 */
export function listenAddressOf(
  { family, port, nodePort }: Pick<ServiceListener, "family" | "port" | "nodePort">,
  { bindAddress, isRedirected }: ListenRule,
): ListenAddress | undefined {
  const anyAddress = wildcardAddresses[family];
  if (isRedirected) return { host: anyAddress, port: 0, isRedirected };
  const ownPort = nodePort === 0 ? port : nodePort;
  if (isWildcard(bindAddress)) return { host: anyAddress, port: ownPort };
  return familyOf(bindAddress) === family ? { host: bindAddress, port: ownPort } : undefined;
}
