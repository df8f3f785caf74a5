import type { Ipvs } from "../../src/kernel/kernel.ts";
import type { RealServer } from "../../src/state/real-server.ts";
import type { VirtualServer } from "../../src/state/virtual-server.ts";

/** A virtual server with its real servers, as the kernel lists them. */
export interface ObservedVirtualServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly RealServer[];
}

/** All virtual and real servers in IPVS, as reported by both ways of reading. */
export async function observeIpvs(
  ipvs: Pick<Ipvs, "listVirtualServers" | "readRealServers">,
): Promise<readonly ObservedVirtualServer[]> {
  const virtualServers = await ipvs.listVirtualServers();
  const realServers = await ipvs.readRealServers(virtualServers);
  return virtualServers.map((virtualServer, index) => ({
    virtualServer,
    realServers: realServers[index] ?? [],
  }));
}
