/** Opens connections from this node to endpoints, because only a real connection shows whether an endpoint answers. */
import { once } from "node:events";
import { connect } from "node:net";
import type { Explanation, Probe } from "../answer/explanation.ts";
import { hostPort, type IpAddress } from "../base/ip.ts";

const deadlineMs = 2_000;
const maxProbes = 100;

/**
 * Connects to all TCP endpoints that accept new connections, in parallel. An endpoint that several ports or addresses
 * of a Service share is probed once.
 */
export async function probed(items: readonly Explanation[]): Promise<readonly Explanation[]> {
  const targets = new Set(items.flatMap(endpointsOf));
  const asked = [...targets].slice(0, maxProbes);
  const probes = new Map(
    await Promise.all(asked.map(async (one) => [one, await probe(one)] as const)),
  );
  return items.map((item) => ({
    ...item,
    probes: endpointsOf(item).flatMap((one) => probes.get(one) ?? []),
  }));
}

function endpointsOf({ protocol, endpoints }: Explanation): readonly string[] {
  if (protocol !== "TCP") return [];
  return endpoints.flatMap(({ address, port, reason }) =>
    reason === undefined ? [hostPort(address as IpAddress, port)] : [],
  );
}

async function probe(endpoint: string): Promise<Probe> {
  const colon = endpoint.lastIndexOf(":");
  const host = endpoint.slice(0, colon).replaceAll(/[[\]]/g, "");
  const beganMs = performance.now();
  const socket = connect(Number(endpoint.slice(colon + 1)), host);
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(deadlineMs) });
    return { endpoint, milliseconds: Math.round((performance.now() - beganMs) * 10) / 10 };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const isLate = code === "ABORT_ERR";
    return { endpoint, error: isLate ? `no answer within ${deadlineMs / 1_000} s` : String(code) };
  } finally {
    socket.destroy();
  }
}
