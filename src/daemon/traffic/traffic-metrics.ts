/** Traffic metrics by Service for /metrics. A scrape reads the kernel's counters, at most once every few seconds. */
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { Config } from "../../config/config.ts";
import type { Sysctl } from "../../kernel/kernel.ts";
import { type SampledServer, sampleTraffic } from "../../kernel/sample-traffic.ts";
import {
  endpointTrafficRows,
  serviceTrafficRows,
  trafficCountedRow,
} from "../../metrics/traffic-table.ts";
import { realServerKey } from "../../state/real-server.ts";
import type { DaemonView } from "../operator/daemon-view.ts";
import { trafficText } from "./traffic-text.ts";
import { TrafficTotals } from "./traffic-totals.ts";

/** Shortest pause between two reads. The kernel updates its counters only every 2 s. */
const shortestPauseMs = 5_000;

export interface TrafficSources {
  readonly clock: Clock;
  readonly log: Logger;
  readonly sysctl: Pick<Sysctl, "read">;
  /** Undefined until the kernel is prepared. */
  readonly view: () => DaemonView | undefined;
}

type TrafficSettings = Pick<Config, "trafficMetrics" | "trafficMetricsLimit">;

export class TrafficMetrics {
  readonly #sources: TrafficSources;
  readonly #hasEndpoints: boolean;
  readonly #services: TrafficTotals;
  readonly #endpoints: TrafficTotals;
  #text = "";
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  #isWarned = false;

  constructor(
    sources: TrafficSources,
    { trafficMetrics, trafficMetricsLimit: limit }: TrafficSettings,
  ) {
    this.#sources = sources;
    this.#hasEndpoints = trafficMetrics === "endpoint";
    this.#services = new TrafficTotals(limit, ["", "other", "", ""]);
    this.#endpoints = new TrafficTotals(limit, ["", "other", "", "", ""]);
  }

  /** Never rejects. If the kernel cannot be read, the scrape has no traffic metrics. */
  async exposition(): Promise<string> {
    const { clock } = this.#sources;
    if (clock.monotonicMs() - this.#readAtMs >= shortestPauseMs) {
      this.#reading ??= this.#read().finally(() => {
        this.#reading = undefined;
      });
      await this.#reading;
    }
    return this.#text;
  }

  async #read(): Promise<void> {
    const { clock, log, view } = this.#sources;
    const present = view();
    if (present === undefined) return;
    try {
      this.#text = await this.#write(await this.#take(present));
    } catch (error) {
      this.#text = "";
      log.warn("Cannot read traffic counters from the kernel", { err: error });
    }
    this.#readAtMs = clock.monotonicMs();
  }

  /** Reads and adds the counters. Resolves with whether the kernel updates them. */
  async #take(view: DaemonView): Promise<boolean> {
    const { clock, sysctl } = this.#sources;
    const foreign = new Set(view.history.claimedForeignServers);
    const kernel = { ipvs: view.ipvs, sysctl };
    const sample = await sampleTraffic(kernel, clock, () => this.#hasEndpoints);
    const servers = sample.servers.flatMap((server) => {
      const labels = foreign.has(server.key) ? undefined : labelsOf(view, server);
      return labels === undefined ? [] : [{ ...server, series: labels.join("\n"), labels }];
    });
    this.#services.take(servers, (series) => isServed(view, series));
    if (this.#hasEndpoints) {
      const endpoints = servers.flatMap(({ labels, endpoints: list }) =>
        list.map((one) => {
          const own = [...labels, realServerKey(one)];
          return { ...one, series: own.join("\n"), labels: own };
        }),
      );
      // Because pods change often, an endpoint's series is removed as soon as its real server is.
      const present = new Set(endpoints.map(({ series }) => series));
      this.#endpoints.take(endpoints, (series) => present.has(series));
    }
    return sample.isCounting;
  }

  async #write(isCounting: boolean): Promise<string> {
    const { clock, log } = this.#sources;
    if (!isCounting && !this.#isWarned) {
      log.warn("Traffic metrics lack connections, packets and bytes", {
        reason: "net.ipv4.vs.run_estimation is 0",
        advice: "Run sysctl -w net.ipv4.vs.run_estimation=1, or set kubeIpvs.runEstimation: on",
      });
    }
    this.#isWarned = !isCounting;
    const { name, help, type } = trafficCountedRow;
    const head = `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${name} ${Number(isCounting)}\n`;
    const write = (...[rows, totals]: [Parameters<typeof trafficText>[0], TrafficTotals]) =>
      inSlices(clock, trafficText(rows, [...totals.series()], isCounting));
    const services = await write(serviceTrafficRows, this.#services);
    const endpoints = this.#hasEndpoints ? await write(endpointTrafficRows, this.#endpoints) : "";
    return head + services + endpoints;
  }
}

/** Labels of a virtual server. Undefined if no Service claims it. */
function labelsOf(
  { plan }: DaemonView,
  { key, protocol }: SampledServer,
): readonly string[] | undefined {
  // The format is `namespace/name:port`. None of the three parts contains a slash or a colon.
  const [, namespace, name, port = ""] =
    /^([^/]*)\/([^:]*)(?::(.*))?$/.exec(plan.desired.claimantOf(key) ?? "") ?? [];
  if (namespace === undefined || name === undefined) return undefined;
  return [namespace, name, port, protocol];
}

/** Whether the Service exists. The series key begins with its namespace and name. */
function isServed({ plan }: DaemonView, series: string): boolean {
  const [namespace = "", name = ""] = series.split("\n");
  return plan.tracker.service(`${namespace}/${name}`) !== undefined;
}
