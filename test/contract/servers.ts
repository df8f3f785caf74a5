/** Virtual and real servers for the contracts, and the changes that create them. */
import { familyOf, hostPrefixLength } from "../../src/base/ip.ts";
import type { IpvsChange } from "../../src/kernel/kernel.ts";
import type { RealServer } from "../../src/state/real-server.ts";
import type { VirtualServer } from "../../src/state/virtual-server.ts";
import { ip } from "./contract-kernel.ts";

/** By default TCP 10.96.0.1:80 with scheduler rr. */
export function virtual(overrides: Partial<VirtualServer> = {}): VirtualServer {
  const address = overrides.address ?? ip("10.96.0.1");
  return {
    protocol: "TCP",
    port: 80,
    scheduler: "rr",
    persistenceTimeoutSeconds: 0,
    persistencePrefixLength: hostPrefixLength(familyOf(address)),
    flags: 0,
    ...overrides,
    address,
  };
}

export function real(text = "10.244.1.5", overrides: Partial<RealServer> = {}): RealServer {
  return { address: ip(text), port: 8080, weight: 1, forwardingMethod: 0, ...overrides };
}

export function create(
  virtualServer: VirtualServer,
  ...realServers: readonly RealServer[]
): IpvsChange[] {
  return [
    { kind: "virtual-server-create", after: virtualServer },
    ...realServers.map(
      (realServer): IpvsChange => ({
        kind: "real-server-create",
        virtualServer,
        after: realServer,
      }),
    ),
  ];
}
