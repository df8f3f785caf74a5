import { familyOf, type IpAddress, isWildcard, wildcardAddresses } from "../base/ip.ts";
import type { ListenAddress } from "./listener.ts";
import type { ServiceListener } from "./service-listeners.ts";

/** On which addresses and ports listeners stand. */
export interface ListenRule {
  /** `--bind-address`; unspecified: every address, in both families. */
  readonly bindAddress: IpAddress;
  /** Rules lead virtual IPs and node ports to the listeners. */
  readonly isRedirected: boolean;
}

/**
 * Where a service port is listened for. Behind rules on any free port of any address, since a redirected packet comes
 * in by the address of its interface. Without them on `bindAddress`, at the node port, or else at the Service's own
 * port. `undefined`: the family is not that of `bindAddress`. Pure.
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
