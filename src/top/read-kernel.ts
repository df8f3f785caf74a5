/** Reads counters directly from the kernel, without a daemon. */
import type { Clock } from "../base/clock.ts";
import type { Ipvs, Sysctl } from "../kernel/kernel.ts";
import { realServerKey } from "../state/real-server.ts";
import { noConnections } from "../state/traffic.ts";
import { type VirtualServerId, virtualServerKey } from "../state/virtual-server.ts";
import type { Reading, ServerReading } from "./reading.ts";
import type { ListedEndpoint } from "./rows.ts";

export interface TopKernel {
  readonly ipvs: Pick<Ipvs, "listTraffic" | "sumConnections" | "listRealServerTraffic">;
  readonly sysctl: Pick<Sysctl, "read">;
}

/** The file does not exist if the kernel cannot switch off the estimator, or if IPVS is not loaded. */
function isCounting({ sysctl }: TopKernel): boolean {
  return sysctl.read("net/ipv4/vs/run_estimation") !== "0";
}

export interface ServersReading extends Reading {
  readonly ids: readonly VirtualServerId[];
}

export async function readServers(kernel: TopKernel, clock: Clock): Promise<ServersReading> {
  const { ipvs } = kernel;
  const ids = await ipvs.listTraffic();
  const atMs = clock.monotonicMs();
  const counts = await ipvs.sumConnections(ids);
  const servers = new Map<string, ServerReading>();
  for (const [index, id] of ids.entries()) {
    const count = counts[index] ?? noConnections;
    servers.set(virtualServerKey(id), { ...count, traffic: id.traffic });
  }
  return { ids, atMs, isCounting: isCounting(kernel), servers };
}

export interface EndpointsReading extends Reading {
  readonly endpoints: readonly ListedEndpoint[];
}

export async function readEndpoints(
  kernel: TopKernel,
  clock: Clock,
  ids: readonly VirtualServerId[],
): Promise<EndpointsReading> {
  const lists = await kernel.ipvs.listRealServerTraffic(ids);
  const atMs = clock.monotonicMs();
  const servers = new Map<string, ServerReading>();
  const endpoints: ListedEndpoint[] = [];
  for (const [index, id] of ids.entries()) {
    for (const { address, port, weight, ...counted } of lists[index] ?? []) {
      const key = `${virtualServerKey(id)} -> ${realServerKey({ address, port })}`;
      servers.set(key, counted);
      endpoints.push({ address, port, weight, key });
    }
  }
  return { endpoints, atMs, isCounting: isCounting(kernel), servers };
}

export function estimatorNotes({ isCounting }: Pick<Reading, "isCounting">): readonly string[] {
  if (isCounting) return [];
  return [
    "The IPVS estimator is off (net.ipv4.vs.run_estimation=0): the kernel does not count connections, packets or bytes. " +
      "The numbers of active and inactive connections are correct",
  ];
}
