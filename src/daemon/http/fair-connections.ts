/** Chooses which connections to close if a server has too many. */
import type { Socket } from "node:net";
import { parseCidr, parseIpAddress } from "../../base/ip.ts";

/**
 * When `most` connections are open, makes room for a new one by closing the oldest connection of the source that has
 * the most. Refusing the new connection would let a client with many idle connections block probes and load balancers.
 * Closing the oldest connection overall would let a client that opens connections quickly displace a probe's
 * connections before they are answered.
 */
export function keepFairly(most: number): (socket: Socket) => void {
  const bySource = new Map<string, Set<Socket>>();
  let count = 0;
  const forget = (source: string, socket: Socket): void => {
    const open = bySource.get(source);
    if (open?.delete(socket) !== true) return;
    count -= 1;
    if (open.size === 0) bySource.delete(source);
  };
  return (socket) => {
    const source = sourceOf(socket.remoteAddress ?? "");
    if (count >= most) {
      const [greediest = "", open = new Set<Socket>()] = mostOf(bySource) ?? [];
      const [oldest] = open;
      if (oldest !== undefined) {
        forget(greediest, oldest);
        oldest.destroy();
      }
    }
    const open = bySource.get(source) ?? new Set();
    bySource.set(source, open.add(socket));
    count += 1;
    socket.on("close", () => forget(source, socket));
  };
}

function mostOf<T>(bySource: ReadonlyMap<string, ReadonlySet<T>>) {
  let most: readonly [string, ReadonlySet<T>] | undefined;
  for (const one of bySource) if (most === undefined || one[1].size > most[1].size) most = one;
  return most;
}

/**
 * The client's IPv4 address, or the /64 network of its IPv6 address, because a client can use any address in its /64.
 */
export function sourceOf(text: string): string {
  const address = parseIpAddress(text.replace(/%.*$/, ""));
  if (address?.includes(":") !== true) return address ?? "";
  return parseCidr(`${address}/64`)?.address ?? address;
}
