import { isWildcard } from "../../base/ip.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { askedFrontends } from "../../plan/frontends.ts";
import type { ListenRule } from "../../userspace/listen-addresses.ts";
import type { ServedAddress } from "../operator/daemon-view.ts";

/** Where clients reach a service port: by rules at all its addresses, else where its listener stands. Pure. */
export function servedAddresses(
  port: ServicePort,
  { bindAddress, isRedirected }: ListenRule,
): readonly ServedAddress[] {
  const { nodePort } = port;
  const nodePorts: readonly ServedAddress[] =
    nodePort === 0 ? [] : [{ kind: "node-port", port: nodePort }];
  if (isRedirected) return [...askedFrontends(port, []), ...nodePorts];
  const [own = { kind: "cluster-ip", port: port.port } as const] = nodePorts;
  return [isWildcard(bindAddress) ? own : { ...own, address: bindAddress }];
}
