/** Reads the traffic counters of virtual servers, for `kube-ipvs top` and /metrics. */
import type { Clock } from "../base/clock.ts";
import { realServerKey } from "../state/real-server.ts";
import {
  addConnections,
  type ConnectionCounts,
  noConnections,
  type RealServerTraffic,
  type VirtualServerTraffic,
} from "../state/traffic.ts";
import { type ServerKey, virtualServerKey } from "../state/virtual-server.ts";
import type { IpvsTraffic, Sysctl } from "./kernel.ts";

export interface TrafficKernel {
  readonly ipvs: Pick<IpvsTraffic, "listTraffic" | "sumConnections" | "listRealServerTraffic">;
  readonly sysctl: Pick<Sysctl, "read">;
}

export interface TrafficSample {
  /** Time at which the counters were read, on the monotonic clock. */
  readonly atMs: number;
  /** Whether the kernel counts connections, packets and bytes. The kernel always counts open connections. */
  readonly isCounting: boolean;
  readonly servers: readonly SampledServer[];
}

export interface SampledServer extends VirtualServerTraffic, ConnectionCounts {
  readonly key: ServerKey;
  /** Empty unless requested. */
  readonly endpoints: readonly SampledEndpoint[];
}

export interface SampledEndpoint extends RealServerTraffic {
  /** Identifies the real server across all virtual servers. */
  readonly key: string;
}

/** `hasEndpoints` selects the virtual servers, by key, whose real servers are returned too. */
export async function sampleTraffic(
  { ipvs, sysctl }: TrafficKernel,
  clock: Pick<Clock, "monotonicMs">,
  hasEndpoints: (key: ServerKey) => boolean = () => false,
): Promise<TrafficSample> {
  const listed = await ipvs.listTraffic();
  const atMs = clock.monotonicMs();
  const keyed = listed.map((server) => ({ ...server, key: virtualServerKey(server) }));
  const { true: detailed = [], false: summed = [] } = Object.groupBy(
    keyed,
    ({ key }) => `${hasEndpoints(key)}` as const,
  );
  const lists = await ipvs.listRealServerTraffic(detailed);
  const counts = await ipvs.sumConnections(summed);
  return {
    atMs,
    // The file does not exist if the kernel cannot turn off the estimator, or if IPVS is not loaded.
    isCounting: sysctl.read("net/ipv4/vs/run_estimation") !== "0",
    servers: [
      ...detailed.map((server, index) => withEndpoints(server, lists[index] ?? [])),
      ...summed.map((server, index) => ({
        ...server,
        ...(counts[index] ?? noConnections),
        endpoints: [],
      })),
    ],
  };
}

function withEndpoints(
  server: VirtualServerTraffic & { readonly key: ServerKey },
  list: readonly RealServerTraffic[],
): SampledServer {
  const endpoints = list.map((one) => ({ ...one, key: `${server.key} -> ${realServerKey(one)}` }));
  return { ...server, ...list.reduce(addConnections, noConnections), endpoints };
}
