/** What was read of the kernel, and what happened between two readings. Pure. */
import type { TrafficFigures } from "../answer/traffic.ts";
import type { ConnectionCounts, Traffic } from "../state/traffic.ts";
import { trafficFields, trafficSince } from "../state/traffic.ts";

/** A virtual or real server, by its key, as it was read. */
export interface ServerReading extends ConnectionCounts {
  readonly traffic: Traffic;
}

export interface Reading {
  /** Monotonic. */
  readonly atMs: number;
  /** The kernel adds up connections, packets and bytes. Connections that are open it counts at any time. */
  readonly isCounting: boolean;
  readonly servers: ReadonlyMap<string, ServerReading>;
}

/** The kernel adds its counters up this often: between readings that are nearer a rate is 0 or too large. */
const countingPeriodMs = 2_000;
/** Readings two seconds apart may see none or two of its rounds: rates are of three. */
const windowMs = 3 * countingPeriodMs;
/** A timer may come a little early, and the reading takes a moment. */
const toleranceMs = 50;

/** The last readings, as many as rates need. */
export class ReadingHistory<R extends Reading> {
  #readings: readonly R[] = [];

  add(reading: R): void {
    const kept = [...this.#readings, reading];
    // The youngest that is old enough stays, and all after it.
    const first = kept.findLastIndex((one) => isApart(one, reading, windowMs));
    this.#readings = kept.slice(Math.max(0, first));
  }

  get last(): R | undefined {
    return this.#readings.at(-1);
  }

  /** Figures of a server; undefined: it is not there. */
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
