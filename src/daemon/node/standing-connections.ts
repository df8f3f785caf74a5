import { type Clock, sleep } from "../../base/clock.ts";
import { familyOf } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { ConnectionCounts } from "../../state/traffic.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";

/** Pause between two readings, and how many times longer than a reading it is at least. */
const pauseMs = 1_000;
const pausePerLook = 50;

export interface StandingParts {
  readonly clock: Clock;
  readonly stop: AbortSignal;
  /** Called once, where there is something to wait for, with the number of virtual servers. */
  readonly onWait: (count: number) => void;
}

/**
 * Resolves when no connection goes through these virtual servers any more, or its time as a drain would be over, with those
 * whose UDP flows still stand. Rejects where the kernel does not answer.
 */
export async function connectionsEnd(
  { ipvs }: Pick<Kernel, "ipvs">,
  ids: readonly VirtualServerId[],
  { drain }: Pick<Config, "drain">,
  { clock, stop, onWait }: StandingParts,
): Promise<readonly VirtualServerId[]> {
  const beganMs = clock.monotonicMs();
  let standing = ids;
  for (let look = 0; ; look += 1) {
    const lookedMs = clock.monotonicMs();
    const counts = await ipvs.sumConnections(standing);
    standing = standing.filter((id, index) => isStanding(id, counts[index]));
    const elapsedSeconds = (clock.monotonicMs() - beganMs) / 1_000;
    const waiting = standing.filter((id) => mayGoOn(id, elapsedSeconds, drain));
    if (waiting.length === 0 || stop.aborted) return standing.filter(isUdp);
    if (look === 0) onWait(waiting.length);
    const tookMs = clock.monotonicMs() - lookedMs;
    await sleep(clock, Math.max(pauseMs, pausePerLook * tookMs), stop);
  }
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

/** Of TCP what is established; a flow of datagrams has no end but its timeout. */
function isStanding(id: VirtualServerId, counts: ConnectionCounts | undefined): boolean {
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
