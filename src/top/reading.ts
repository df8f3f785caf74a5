/** Rates between two samples of the kernel's counters. Pure. */
import type { TrafficFigures } from "../answer/traffic.ts";
import type { SampledEndpoint, SampledServer, TrafficSample } from "../kernel/sample-traffic.ts";
import { type Traffic, trafficFields, trafficSince } from "../state/traffic.ts";

/** Interval at which the kernel updates its counters. Rates from closer readings would be 0 or too large. */
const countingPeriodMs = 2_000;
/** Rates cover three updates, because readings that are two seconds apart may see none or two of them. */
const windowMs = 3 * countingPeriodMs;
/** A timer may fire slightly early, and readings take a moment. */
const toleranceMs = 50;

type Counters = SampledServer | SampledEndpoint;

/** A sample, and its virtual and real servers by key. */
interface Reading extends TrafficSample {
  readonly byKey: ReadonlyMap<string, Counters>;
}

/** The latest samples, as many as the rates need. */
export class SampleHistory {
  #readings: readonly Reading[] = [];

  add(sample: TrafficSample): void {
    const all = sample.servers.flatMap((server): Counters[] => [server, ...server.endpoints]);
    const reading = { ...sample, byKey: new Map(all.map((one) => [one.key, one])) };
    const kept = [...this.#readings, reading];
    // Keeps the latest reading that is old enough, and all readings after it.
    const first = kept.findLastIndex((one) => isApart(one, reading, windowMs));
    this.#readings = kept.slice(Math.max(0, first));
  }

  get last(): TrafficSample | undefined {
    return this.#readings.at(-1);
  }

  /** Returns figures for a virtual or real server, with rates if two samples are far enough apart. */
  figuresOf({
    key,
    activeConnections,
    inactiveConnections,
    traffic: total,
  }: Counters): TrafficFigures {
    const counts = { activeConnections, inactiveConnections, total };
    const last = this.#readings.at(-1);
    const [before] = this.#readings;
    if (last === undefined || before === undefined) return counts;
    if (!last.isCounting || !isApart(before, last, countingPeriodMs)) return counts;
    const counted = trafficSince(before.byKey.get(key)?.traffic, total);
    return { ...counts, perSecond: perSecond(counted, last.atMs - before.atMs) };
  }
}

function isApart(before: TrafficSample, now: TrafficSample, apartMs: number): boolean {
  return now.atMs - before.atMs >= apartMs - toleranceMs;
}

function perSecond(traffic: Traffic, elapsedMs: number): Traffic {
  const rates = { ...traffic };
  for (const field of trafficFields) rates[field] = (traffic[field] * 1_000) / elapsedMs;
  return rates;
}

export function estimatorNotes({
  isCounting,
}: Pick<TrafficSample, "isCounting">): readonly string[] {
  if (isCounting) return [];
  return [
    "The IPVS estimator is off (net.ipv4.vs.run_estimation=0): the kernel does not count connections, packets or bytes. " +
      "The counts of active and inactive connections are correct",
  ];
}
