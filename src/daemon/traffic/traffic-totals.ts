/** Converts kernel counters into counters that never decrease while their Service exists. Pure. */
import {
  addTraffic,
  type ConnectionCounts,
  noConnections,
  noTraffic,
  type Traffic,
  trafficSince,
} from "../../state/traffic.ts";

/** Label values, in the order of the metric table. */
export type LabelValues = readonly string[];

/** A virtual or real server with its counters, as read from the kernel. */
export interface CountedServer extends ConnectionCounts {
  /** Key of the server in the kernel. */
  readonly key: string;
  /** Key of the series to which the server is added. Several servers may share a series. */
  readonly series: string;
  readonly labels: LabelValues;
  readonly traffic: Traffic;
}

export interface TrafficSeries extends ConnectionCounts {
  readonly labels: LabelValues;
  readonly traffic: Traffic;
}

/**
 * Sums the traffic between reads, so that a series does not decrease when a virtual server is recreated. Traffic from
 * before the first read is included, so that the series continue after a restart of the program.
 */
export class TrafficTotals {
  readonly #limit: number;
  readonly #otherLabels: LabelValues;
  #last: ReadonlyMap<string, Traffic> = new Map();
  readonly #own = new Map<string, TrafficSeries>();
  #other: TrafficSeries | undefined;

  /** The first `limit` series have their own labels. All further ones are added to one series with `otherLabels`. */
  constructor(limit: number, otherLabels: LabelValues) {
    this.#limit = limit;
    this.#otherLabels = otherLabels;
  }

  /**
   * Adds the counters of one read. Series for which `isWanted` returns false are removed. All other series remain, even
   * if the kernel has no servers for them.
   */
  take(servers: readonly CountedServer[], isWanted: (series: string) => boolean): void {
    this.#forgetConnections(isWanted);
    const last = new Map<string, Traffic>();
    for (const server of servers) {
      last.set(server.key, server.traffic);
      this.#add(server, trafficSince(this.#last.get(server.key), server.traffic));
    }
    this.#last = last;
  }

  /** All series. The series with `otherLabels`, if any, is last. */
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
    // Written without spread syntax, because this runs for every endpoint in every scrape.
    activeConnections: series.activeConnections + server.activeConnections,
    inactiveConnections: series.inactiveConnections + server.inactiveConnections,
  };
}
