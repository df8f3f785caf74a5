import type { RealServerId } from "./real-server.ts";
import type { VirtualServerId } from "./virtual-server.ts";

/**
 * Traffic of a virtual or real server since its creation. The kernel updates these counters every 2 s, but not while
 * net.ipv4.vs.run_estimation is 0.
 */
export interface Traffic {
  readonly connections: number;
  readonly packetsIn: number;
  readonly packetsOut: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

export const noTraffic: Traffic = {
  connections: 0,
  packetsIn: 0,
  packetsOut: 0,
  bytesIn: 0,
  bytesOut: 0,
};

export const trafficFields: readonly (keyof Traffic)[] = [
  "connections",
  "packetsIn",
  "packetsOut",
  "bytesIn",
  "bytesOut",
];

/** Current connections. The kernel always counts them, even while run_estimation is 0. */
export interface ConnectionCounts {
  readonly activeConnections: number;
  /** Includes TIME_WAIT and all UDP flows. */
  readonly inactiveConnections: number;
}

export const noConnections: ConnectionCounts = { activeConnections: 0, inactiveConnections: 0 };

export function addConnections(one: ConnectionCounts, other: ConnectionCounts): ConnectionCounts {
  return {
    activeConnections: one.activeConnections + other.activeConnections,
    inactiveConnections: one.inactiveConnections + other.inactiveConnections,
  };
}

export interface VirtualServerTraffic extends VirtualServerId {
  readonly traffic: Traffic;
}

export interface RealServerTraffic extends RealServerId, ConnectionCounts {
  readonly weight: number;
  readonly traffic: Traffic;
}

export function addTraffic(one: Traffic, other: Traffic): Traffic {
  return {
    connections: one.connections + other.connections,
    packetsIn: one.packetsIn + other.packetsIn,
    packetsOut: one.packetsOut + other.packetsOut,
    bytesIn: one.bytesIn + other.bytesIn,
    bytesOut: one.bytesOut + other.bytesOut,
  };
}

/**
 * Returns the traffic between two readings. If `before` is undefined or a counter decreased, the server was created
 * between the readings, so all of its traffic is returned.
 */
export function trafficSince(before: Traffic | undefined, now: Traffic): Traffic {
  if (before === undefined || trafficFields.some((field) => now[field] < before[field])) return now;
  return {
    connections: now.connections - before.connections,
    packetsIn: now.packetsIn - before.packetsIn,
    packetsOut: now.packetsOut - before.packetsOut,
    bytesIn: now.bytesIn - before.bytesIn,
    bytesOut: now.bytesOut - before.bytesOut,
  };
}
