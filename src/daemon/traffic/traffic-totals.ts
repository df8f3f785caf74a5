/** Readings of the kernel → counters that never go back while their Service is there. Pure. */
import {
  addTraffic,
  type ConnectionCounts,
  noConnections,
  noTraffic,
  type Traffic,
  trafficSince,
} from "../../state/traffic.ts";

/** Values of the labels, in the order of the metric table. */
export type LabelValues = readonly string[];

/** A virtual or real server as it was read. */
export interface CountedServer extends ConnectionCounts {
  /** Of the server in the kernel. */
  readonly key: string;
  /** Of the series that it counts for: several servers may share one. */
  readonly series: string;
  readonly labels: LabelValues;
  readonly traffic: Traffic;
}

export interface TrafficSeries extends ConnectionCounts {
  readonly labels: LabelValues;
  readonly traffic: Traffic;
}

/**
 * Adds up what was counted between two readings, so that a virtual server that was made again does not set its Service
 * back. What was there before the first reading counts: a restart of the program goes on where the kernel is.
 */
export class TrafficTotals {
  readonly #limit: number;
  readonly #otherLabels: LabelValues;
  #last: ReadonlyMap<string, Traffic> = new Map();
  readonly #own = new Map<string, TrafficSeries>();
  #other: TrafficSeries | undefined;

  /** At most `limit` series get labels of their own, first come; the rest are one series. */
  constructor(limit: number, otherLabels: LabelValues) {
    this.#limit = limit;
    this.#otherLabels = otherLabels;
  }

  /** `isWanted`: series stay while their Service is there, whether the kernel has its servers or not. */
  take(servers: readonly CountedServer[], isWanted: (series: string) => boolean): void {
    this.#forgetConnections(isWanted);
    const last = new Map<string, Traffic>();
    for (const server of servers) {
      last.set(server.key, server.traffic);
      this.#add(server, trafficSince(this.#last.get(server.key), server.traffic));
    }
    this.#last = last;
  }

  /** The series of the rest comes last, where there is one. */
  *series(): Generator<TrafficSeries> {
    yield* this.#own.values();
    if (this.#other !== undefined) yield this.#other;
  }

  #forgetConnections(isWanted: (series: string) => boolean): void {
    for (const [key, series] of this.#own) {
      if (isWanted(key)) this.#own.set(key, { ...series, ...noConnections });
      else this.#own.delete(key);
    }
    if (this.#other !== undefined) this.#other = { ...this.#other, ...noConnections };
  }

  #add(server: CountedServer, traffic: Traffic): void {
    const present = this.#own.get(server.series);
    if (present !== undefined || this.#own.size < this.#limit) {
      const before = present ?? emptySeries(server.labels);
      this.#own.set(server.series, sumOf(before, server, traffic));
      return;
    }
    this.#other = sumOf(this.#other ?? emptySeries(this.#otherLabels), server, traffic);
  }
}

function emptySeries(labels: LabelValues): TrafficSeries {
  return { labels, traffic: noTraffic, ...noConnections };
}

function sumOf(series: TrafficSeries, server: CountedServer, traffic: Traffic): TrafficSeries {
  return {
    labels: series.labels,
    traffic: addTraffic(series.traffic, traffic),
    // Not spread: this is done for every endpoint at every scrape.
    activeConnections: series.activeConnections + server.activeConnections,
    inactiveConnections: series.inactiveConnections + server.inactiveConnections,
  };
}
