import { type Clock, sleep } from "../../base/clock.ts";
import { familyOf } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { ConnectionCounts } from "../../state/traffic.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";

/** The pause between two readings is fifty times as long as a reading, within these limits. */
const minPauseMs = 1_000;
const maxPauseMs = 30_000;
const pausePerLook = 50;

export interface ConnectionWait {
  readonly clock: Clock;
  readonly stop: AbortSignal;
  /** Called once if there is something to wait for, with the number of virtual servers. */
  readonly onWait: (count: number) => void | Promise<void>;
}

/**
 * Resolves when no connection goes through these virtual servers any more, or its time as a drain would be over, with those
 * whose UDP flows still stand. Rejects where the kernel does not answer.
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

/** The counts are cheap to read; the connection table, which tells what is established, is read only if they are not zero. */
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

/** Deletes the conntrack entries of these: their next datagram goes the new way. */
export async function forgetFlows(
  { conntrack }: Pick<Kernel, "conntrack">,
  ids: readonly VirtualServerId[],
): Promise<void> {
  for (const { address: destination, port: destinationPort } of ids) {
    const selection = { destination, destinationPort };
    await conntrack.remove(await conntrack.listUdpFlows(familyOf(destination), selection));
  }
}

/** A flow of datagrams ends only by its timeout, and the kernel counts it as inactive. */
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
