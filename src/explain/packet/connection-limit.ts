import type { ObservedRealServer, RealServer } from "../../state/real-server.ts";

/**
 * Whether a real server gets no new connections because of its limit. A real server that has reached the upper number
 * must first drop below the lower one. Between the two numbers, the result is unknown. Pure.
 */
export function isFull(realServer: RealServer | ObservedRealServer): boolean | "maybe" {
  if (realServer.limit === undefined || !("activeConnections" in realServer)) return false;
  const { limit, activeConnections, inactiveConnections } = realServer;
  const total = activeConnections + inactiveConnections;
  const { upper, lower } = limit;
  if (upper === 0) return false;
  if (total >= upper) return true;
  return total >= (lower === 0 ? (upper * 3) / 4 : lower) ? "maybe" : false;
}
