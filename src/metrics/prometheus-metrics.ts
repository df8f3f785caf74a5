import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Clock } from "../base/clock.ts";
import type { IpFamily } from "../base/ip.ts";
import { bucketLists, type MetricRow, metricTable } from "./metric-table.ts";
import { registerProcessMetrics } from "./process-metrics.ts";

export interface BuildVersions {
  /** Ours. */
  readonly version: string;
  /** Absent: none is shown. */
  readonly featureGates?: readonly FeatureGateState[];
}

/** A feature gate as Kubernetes' components show it. */
export interface FeatureGateState {
  readonly name: string;
  /** `ALPHA`, `BETA`, `DEPRECATED`; empty: GA. */
  readonly stage: string;
  readonly isOn: boolean;
}

/** A sync of one family's tables in mode iptables. */
export interface TablesSync {
  /** `full`: all rules were compared. */
  readonly kind: "full" | "partial";
  readonly seconds: number;
  /** Rules in our chains, by table; empty: not known. */
  readonly totalRules: ReadonlyMap<string, number>;
  /** Rules that were written, by table. */
  readonly writtenRules: ReadonlyMap<string, number>;
}

/** What the program counts and measures: each call is cheap, and none throws. */
export type Metrics = Omit<PrometheusMetrics, "exposition" | "contentType" | "addTextSource">;

/** The registry: what was counted, and its text for a scrape. Nothing global: tests make their own. */
export class PrometheusMetrics {
  readonly #registry = new Registry();
  readonly #clock: Clock;
  readonly #textSources: (() => Promise<string>)[] = [];

  readonly #metrics: RegisteredMetrics = register(this.#registry);

  constructor(clock: Clock, { version, featureGates = [] }: BuildVersions) {
    this.#clock = clock;
    for (const { name, stage, isOn } of featureGates) {
      this.#metrics.featureEnabled.set({ name, stage }, isOn ? 1 : 0);
    }
    this.#metrics.ownBuildInfo.set({ version, node_version: process.version }, 1);
    registerProcessMetrics(this.#registry);
  }

  /** The Prometheus text form, version 0.0.4. */
  async exposition(): Promise<string> {
    const texts = [await this.#registry.metrics()];
    for (const read of this.#textSources) texts.push(await read());
    return texts.join("");
  }

  /** More metrics, as text: tens of thousands of series that are made at the scrape. It must not reject. */
  addTextSource(read: () => Promise<string>): void {
    this.#textSources.push(read);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** A sync is asked for. */
  syncQueued(family: IpFamily): void {
    this.#metrics.syncLastQueued.set({ ip_family: family }, this.#clock.nowMs() / 1000);
  }

  /** A sync ended, well or not. */
  syncFinished(family: IpFamily, seconds: number): void {
    this.#metrics.syncDuration.observe({ ip_family: family }, seconds);
  }

  syncSucceeded(family: IpFamily): void {
    this.#metrics.syncLastTimestamp.set({ ip_family: family }, this.#clock.nowMs() / 1000);
  }

  /** The first sync since the start succeeded. */
  firstSyncCompleted(): void {
    this.#metrics.firstSyncCompleted.set(1);
  }

  /** `full`: the whole kernel state was compared. Once for each sync, whatever the families. */
  syncRun(kind: "full" | "partial", result: "success" | "failure"): void {
    this.#metrics.syncRuns.inc({ kind, result });
  }

  /** Seconds from a change in the cluster until the kernel followed it. */
  networkProgrammed(family: IpFamily, seconds: number): void {
    this.#metrics.networkProgramming.observe({ ip_family: family }, seconds);
  }

  /** `times`: how many families see the change. */
  serviceChanged(times: number, pendingCount: number): void {
    this.#metrics.serviceChanges.inc(times);
    this.#metrics.serviceChangesPending.set(pendingCount);
  }

  endpointSliceChanged(pendingCount: number): void {
    this.#metrics.endpointChanges.inc();
    this.#metrics.endpointChangesPending.set(pendingCount);
  }

  /** A sync took all pending changes. */
  changesTaken(): void {
    this.#metrics.serviceChangesPending.set(0);
    this.#metrics.endpointChangesPending.set(0);
  }

  /** Service ports with a Local policy whose endpoints are all on other nodes. */
  noLocalEndpoints(policy: "internal" | "external", family: IpFamily, count: number): void {
    this.#metrics.noLocalEndpoints.set({ traffic_policy: policy, ip_family: family }, count);
  }

  iptablesRestoreFailed(family: IpFamily): void {
    this.#metrics.iptablesRestoreFailures.inc({ ip_family: family });
  }

  /** Of the failed runs, those that wrote only what had changed. */
  partialRestoreFailed(family: IpFamily): void {
    this.#metrics.partialRestoreFailures.inc({ ip_family: family });
  }

  tablesSynced(family: IpFamily, { kind, seconds, totalRules, writtenRules }: TablesSync): void {
    const duration =
      kind === "full" ? this.#metrics.fullSyncDuration : this.#metrics.partialSyncDuration;
    duration.observe({ ip_family: family }, seconds);
    for (const [table, count] of totalRules) {
      const labels = { ip_family: family, table };
      this.#metrics.iptablesRules.set(labels, count);
      this.#metrics.iptablesRulesWritten.set(labels, writtenRules.get(table) ?? 0);
    }
  }

  /** A check for stale conntrack entries that could list them. */
  conntrackReconciled(family: IpFamily, seconds: number, deletedCount: number): void {
    this.#metrics.conntrackDuration.observe({ ip_family: family }, seconds);
    this.#metrics.conntrackDeleted.inc({ ip_family: family }, deletedCount);
  }

  healthzAnswered(status: number): void {
    this.#metrics.healthz.inc({ code: status });
  }

  livezAnswered(status: number): void {
    this.#metrics.livez.inc({ code: status });
  }

  kernelChanges(kind: string, result: "success" | "failure", times: number): void {
    this.#metrics.kernelChanges.inc({ kind, result }, times);
  }

  /** `reason` is one of the fixed codes, never text from an object. */
  objectRefused(resource: string, reason: string): void {
    this.#metrics.invalidFields.inc({ resource, reason });
  }

  /** A list would take away too much; `outcome`: held, confirmed, refuted or expired. */
  listQuarantined(resource: string, outcome: string): void {
    this.#metrics.relistGuardOutcomes.inc({ resource, outcome });
    this.#metrics.quarantinedLists.set({ resource }, outcome === "held" ? 1 : 0);
  }

  foreignVirtualServers(count: number): void {
    this.#metrics.foreignVirtualServers.set(count);
  }

  /** A check between syncs found that a third party changed sets or rules. */
  driftDetected(state: "sets" | "rules"): void {
    this.#metrics.driftDetected.inc({ state });
  }

  /** A third party changed an object of ours; `action`: repair, suppress (wait with it) or report (do nothing). */
  drifted(kind: string, action: string): void {
    this.#metrics.drift.inc({ kind, action });
  }

  /** Real servers that keep a weight of a third party. */
  manualWeights(count: number): void {
    this.#metrics.manualWeights.set(count);
  }

  /** Repairs that a third party keeps reverting. */
  suppressedRepairs(kind: string, count: number): void {
    this.#metrics.suppressedRepairs.set({ kind }, count);
  }

  /** Objects that the kernel refuses at the moment; `reason` is an errno's name or an exit code. */
  refusedObjects(kind: string, reason: string, count: number): void {
    this.#metrics.refusedObjects.set({ kind, reason }, count);
  }

  /** What would be changed, were not everything only observed. */
  pendingChanges(kind: string, count: number): void {
    this.#metrics.pendingChanges.set({ kind }, count);
  }

  /** Frontends of Services that are not served, or not as asked; `reason` is one of the fixed codes. */
  conflicts(reason: string, count: number): void {
    this.#metrics.conflicts.set({ reason }, count);
  }

  /** Annotations of Services that do not count; `reason` is one of the fixed codes. */
  ignoredAnnotations(reason: string, count: number): void {
    this.#metrics.ignoredAnnotations.set({ reason }, count);
  }

  /** Age 0 when nothing drains. */
  draining(count: number, oldestAgeSeconds: number): void {
    this.#metrics.drainingRealServers.set(count);
    this.#metrics.oldestDrain.set(oldestAgeSeconds);
  }

  eventLoopDelayed(seconds: number): void {
    this.#metrics.eventLoopDelay.observe(seconds);
  }

  /**
   * The API server's, when it is known and when it changes: the fixed version of a build would be a mismatch to
   * kubernetes-mixin in every other cluster.
   */
  serverVersion({
    major,
    minor,
    gitVersion,
  }: {
    readonly major: string;
    readonly minor: string;
    readonly gitVersion: string;
  }): void {
    this.#metrics.buildInfo.reset();
    const platform = `linux/${process.arch === "x64" ? "amd64" : process.arch}`;
    this.#metrics.buildInfo.set({ major, minor, git_version: gitVersion, platform }, 1);
  }

  /** `code` is the HTTP status, or `<error>` where the API server gave no answer. */
  apiRequestAnswered(method: string, host: string, code: string): void {
    this.#metrics.apiRequests.inc({ code, method, host });
  }

  /** A request other than a watch ended; `receivedBytes` is absent where no answer came. */
  apiRequestEnded(
    verb: string,
    host: string,
    {
      seconds,
      sentBytes,
      receivedBytes,
    }: { readonly seconds: number; readonly sentBytes: number; readonly receivedBytes?: number },
  ): void {
    this.#metrics.apiDuration.observe({ verb, host }, seconds);
    this.#metrics.apiRequestSize.observe({ verb, host }, sentBytes);
    if (receivedBytes !== undefined)
      this.#metrics.apiResponseSize.observe({ verb, host }, receivedBytes);
  }
}

type Table = typeof metricTable;

type LabelOf<Row> = Row extends { readonly labels: readonly (infer Label)[] }
  ? Label & string
  : never;

/** Each metric of the table, by its key there. */
type RegisteredMetrics = {
  readonly [Key in keyof Table]: {
    readonly counter: Counter<LabelOf<Table[Key]>>;
    readonly gauge: Gauge<LabelOf<Table[Key]>>;
    readonly histogram: Histogram<LabelOf<Table[Key]>>;
  }[Table[Key]["type"]];
};

function register(registry: Registry): RegisteredMetrics {
  const metrics = Object.entries(metricTable).map(([key, row]: [string, MetricRow]) => {
    const { name, help, type, labels = [], buckets = "sync" } = row;
    const definition = { name, help, labelNames: labels, registers: [registry] };
    if (type === "counter") return [key, new Counter(definition)];
    if (type === "gauge") return [key, new Gauge(definition)];
    return [key, new Histogram({ ...definition, buckets: [...bucketLists[buckets]] })];
  });
  return Object.fromEntries(metrics) as RegisteredMetrics;
}
