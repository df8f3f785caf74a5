/** Readings of the kernel's counters, and rates between two readings. Pure. */
import type { TrafficFigures } from "../answer/traffic.ts";
import type { ConnectionCounts, Traffic } from "../state/traffic.ts";
import { trafficFields, trafficSince } from "../state/traffic.ts";

/** The counters of a virtual or real server. */
export interface ServerReading extends ConnectionCounts {
  readonly traffic: Traffic;
}

export interface Reading {
  /** Time of the reading, on the monotonic clock. */
  readonly atMs: number;
  /** Whether the kernel counts connections, packets and bytes. It always counts open connections. */
  readonly isCounting: boolean;
  readonly servers: ReadonlyMap<string, ServerReading>;
}

/** Interval at which the kernel updates its counters. Rates between closer readings would be 0 or too large. */
const countingPeriodMs = 2_000;
/** Rates cover three updates, because readings that are two seconds apart may see none or two of them. */
const windowMs = 3 * countingPeriodMs;
/** A timer may fire slightly early, and readings take a moment. */
const toleranceMs = 50;

/** The last readings, as many as the rates need. */
export class ReadingHistory<R extends Reading> {
  #readings: readonly R[] = [];

  add(reading: R): void {
    const kept = [...this.#readings, reading];
    // Keeps the latest reading that is old enough, and all readings after it.
    const first = kept.findLastIndex((one) => isApart(one, reading, windowMs));
    this.#readings = kept.slice(Math.max(0, first));
  }

  get last(): R | undefined {
    return this.#readings.at(-1);
  }

  /** Returns the figures of a server. Undefined if the server does not exist. */
  figuresOf(key: string): TrafficFigures | undefined {
    const now = this.last?.servers.get(key);
    const [before] = this.#readings;
    if (now === undefined || this.last === undefined || before === undefined) return undefined;
    const { activeConnections, inactiveConnections, traffic: total } = now;
    const counts = { activeConnections, inactiveConnections, total };
    const { isCounting } = this.last;
    if (!isCounting || !isApart(before, this.last, countingPeriodMs)) return counts;
    const counted = trafficSince(before.servers.get(key)?.traffic, total);
    return { ...counts, perSecond: perSecond(counted, this.last.atMs - before.atMs) };
  }
}

function isApart(before: Reading, now: Reading, apartMs: number): boolean {
  return now.atMs - before.atMs >= apartMs - toleranceMs;
}

function perSecond(traffic: Traffic, elapsedMs: number): Traffic {
  const rates = { ...traffic };
  for (const field of trafficFields) rates[field] = (traffic[field] * 1_000) / elapsedMs;
  return rates;
}
