import { type Clock, sleep } from "../../base/clock.ts";
import { familyOf } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { ConnectionCounts } from "../../state/traffic.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";

/** The pause between two reads is `pausePerLook` times the read duration, within these limits. */
const minPauseMs = 1_000;
const maxPauseMs = 30_000;
const pausePerLook = 50;

export interface ConnectionWait {
  readonly clock: Clock;
  readonly stop: AbortSignal;
  /** Called once if there are open connections, with the number of virtual servers that have them. */
  readonly onWait: (count: number) => void | Promise<void>;
}

/**
 * Resolves when no open connections remain on these virtual servers, or when their drain deadline has passed. The
 * result lists the UDP virtual servers that still have flows. Rejects if the kernel cannot be read.
 */
export async function connectionsEnd(
  { ipvs }: Pick<Kernel, "ipvs">,
  ids: readonly VirtualServerId[],
  { drain }: Pick<Config, "drain">,
  { clock, stop, onWait }: ConnectionWait,
): Promise<readonly VirtualServerId[]> {
  const beganMs = clock.monotonicMs();
  let standing = ids;
  for (let look = 0; ; look += 1) {
    const lookedMs = clock.monotonicMs();
    standing = await withConnections(ipvs, standing);
    const elapsedSeconds = (clock.monotonicMs() - beganMs) / 1_000;
    const waiting = standing.filter((id) => mayGoOn(id, elapsedSeconds, drain));
    if (waiting.length === 0 || stop.aborted) return standing.filter(isUdp);
    if (look === 0) await onWait(waiting.length);
    const tookMs = clock.monotonicMs() - lookedMs;
    const pauseMs = Math.min(maxPauseMs, Math.max(minPauseMs, pausePerLook * tookMs));
    await sleep(clock, pauseMs, stop);
  }
}

/**
 * The virtual servers that have open connections. The counts are cheap to read. The connection table, which shows
 * whether connections are established, is read only if a count is not zero.
 */
async function withConnections(
  ipvs: Kernel["ipvs"],
  ids: readonly VirtualServerId[],
): Promise<readonly VirtualServerId[]> {
  const counts = await ipvs.sumConnections(ids);
  const counted = ids.filter((id, index) => isCounted(id, counts[index]));
  const streams = counted.filter((id) => !isUdp(id));
  if (streams.length === 0 || (await ipvs.hasEstablished(streams))) return counted;
  return counted.filter(isUdp);
}

/**
 * Deletes the conntrack entries of these virtual servers, so that the next datagram of each flow is handled by the
 * current mode.
 */
export async function forgetFlows(
  { conntrack }: Pick<Kernel, "conntrack">,
  ids: readonly VirtualServerId[],
): Promise<void> {
  for (const { address: destination, port: destinationPort } of ids) {
    const selection = { destination, destinationPort };
    await conntrack.remove(await conntrack.listUdpFlows(familyOf(destination), selection));
  }
}

/** Counts inactive connections only for UDP, because the kernel always counts UDP flows as inactive. */
function isCounted(id: VirtualServerId, counts: ConnectionCounts | undefined): boolean {
  const { activeConnections = 0, inactiveConnections = 0 } = counts ?? {};
  return activeConnections + (isUdp(id) ? inactiveConnections : 0) > 0;
}

function mayGoOn(id: VirtualServerId, elapsedSeconds: number, drain: Config["drain"]): boolean {
  const { tcpDeadlineSeconds, udpDeadlineSeconds } = drain;
  if (isUdp(id)) return elapsedSeconds < udpDeadlineSeconds;
  return tcpDeadlineSeconds === 0 || elapsedSeconds < tcpDeadlineSeconds;
}

function isUdp({ protocol }: VirtualServerId): boolean {
  return protocol === "UDP";
}
