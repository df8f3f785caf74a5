import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Clock } from "../base/clock.ts";
import type { IpFamily } from "../base/ip.ts";
import { bucketLists, type MetricRow, metricTable as table } from "./metric-table.ts";
import type { Metrics, TablesSync } from "./metrics.ts";
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

/** The registry: what was counted, and its text for a scrape. Nothing global: tests make their own. */
export class PrometheusMetrics implements Metrics {
  readonly #registry = new Registry();
  readonly #clock: Clock;
  readonly #textSources: (() => Promise<string>)[] = [];

  readonly #syncDuration = this.#histogram(table.syncDuration);
  readonly #syncLastTimestamp = this.#gauge(table.syncLastTimestamp);
  readonly #syncLastQueued = this.#gauge(table.syncLastQueued);
  readonly #networkProgramming = this.#histogram(table.networkProgramming);
  readonly #endpointChangesPending = this.#gauge(table.endpointChangesPending);
  readonly #endpointChanges = this.#counter(table.endpointChanges);
  readonly #serviceChangesPending = this.#gauge(table.serviceChangesPending);
  readonly #serviceChanges = this.#counter(table.serviceChanges);
  readonly #noLocalEndpoints = this.#gauge(table.noLocalEndpoints);
  readonly #healthz = this.#counter(table.healthz);
  readonly #livez = this.#counter(table.livez);
  readonly #conntrackDuration = this.#histogram(table.conntrackDuration);
  readonly #conntrackDeleted = this.#counter(table.conntrackDeleted);
  readonly #iptablesRestoreFailures = this.#counter(table.iptablesRestoreFailures);
  readonly #fullSyncDuration = this.#histogram(table.fullSyncDuration);
  readonly #partialSyncDuration = this.#histogram(table.partialSyncDuration);
  readonly #partialRestoreFailures = this.#counter(table.partialRestoreFailures);
  readonly #iptablesRules = this.#gauge(table.iptablesRules);
  readonly #iptablesRulesWritten = this.#gauge(table.iptablesRulesWritten);
  readonly #firstSync = this.#gauge(table.firstSyncCompleted);
  readonly #syncRuns = this.#counter(table.syncRuns);
  readonly #kernelChanges = this.#counter(table.kernelChanges);
  readonly #invalidFields = this.#counter(table.invalidFields);
  readonly #relistGuardOutcomes = this.#counter(table.relistGuardOutcomes);
  readonly #quarantinedLists = this.#gauge(table.quarantinedLists);
  readonly #foreignVirtualServers = this.#gauge(table.foreignVirtualServers);
  readonly #driftDetected = this.#counter(table.driftDetected);
  readonly #drift = this.#counter(table.drift);
  readonly #manualWeights = this.#gauge(table.manualWeights);
  readonly #suppressedRepairs = this.#gauge(table.suppressedRepairs);
  readonly #refusedObjects = this.#gauge(table.refusedObjects);
  readonly #pendingChanges = this.#gauge(table.pendingChanges);
  readonly #conflicts = this.#gauge(table.conflicts);
  readonly #ignoredAnnotations = this.#gauge(table.ignoredAnnotations);
  readonly #drainingRealServers = this.#gauge(table.drainingRealServers);
  readonly #oldestDrain = this.#gauge(table.oldestDrain);
  readonly #eventLoopDelay = this.#histogram(table.eventLoopDelay);
  readonly #buildInfo = this.#gauge(table.buildInfo);
  readonly #apiRequests = this.#counter(table.apiRequests);
  readonly #apiDuration = this.#histogram(table.apiDuration);
  readonly #apiRequestSize = this.#histogram(table.apiRequestSize);
  readonly #apiResponseSize = this.#histogram(table.apiResponseSize);

  constructor(clock: Clock, { version, featureGates = [] }: BuildVersions) {
    this.#clock = clock;
    const features = this.#gauge(table.featureEnabled);
    for (const { name, stage, isOn } of featureGates) features.set({ name, stage }, isOn ? 1 : 0);
    this.#gauge(table.ownBuildInfo).set({ version, node_version: process.version }, 1);
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

  syncQueued(family: IpFamily): void {
    this.#syncLastQueued.set({ ip_family: family }, this.#clock.nowMs() / 1000);
  }

  syncFinished(family: IpFamily, seconds: number): void {
    this.#syncDuration.observe({ ip_family: family }, seconds);
  }

  syncSucceeded(family: IpFamily): void {
    this.#syncLastTimestamp.set({ ip_family: family }, this.#clock.nowMs() / 1000);
  }

  firstSyncCompleted(): void {
    this.#firstSync.set(1);
  }

  syncRun(kind: "full" | "partial", result: "success" | "failure"): void {
    this.#syncRuns.inc({ kind, result });
  }

  networkProgrammed(family: IpFamily, seconds: number): void {
    this.#networkProgramming.observe({ ip_family: family }, seconds);
  }

  serviceChanged(times: number, pendingCount: number): void {
    this.#serviceChanges.inc(times);
    this.#serviceChangesPending.set(pendingCount);
  }

  endpointSliceChanged(pendingCount: number): void {
    this.#endpointChanges.inc();
    this.#endpointChangesPending.set(pendingCount);
  }

  changesTaken(): void {
    this.#serviceChangesPending.set(0);
    this.#endpointChangesPending.set(0);
  }

  noLocalEndpoints(policy: "internal" | "external", family: IpFamily, count: number): void {
    this.#noLocalEndpoints.set({ traffic_policy: policy, ip_family: family }, count);
  }

  iptablesRestoreFailed(family: IpFamily): void {
    this.#iptablesRestoreFailures.inc({ ip_family: family });
  }

  partialRestoreFailed(family: IpFamily): void {
    this.#partialRestoreFailures.inc({ ip_family: family });
  }

  tablesSynced(family: IpFamily, { kind, seconds, totalRules, writtenRules }: TablesSync): void {
    const duration = kind === "full" ? this.#fullSyncDuration : this.#partialSyncDuration;
    duration.observe({ ip_family: family }, seconds);
    for (const [table, count] of totalRules) {
      const labels = { ip_family: family, table };
      this.#iptablesRules.set(labels, count);
      this.#iptablesRulesWritten.set(labels, writtenRules.get(table) ?? 0);
    }
  }

  conntrackReconciled(family: IpFamily, seconds: number, deletedCount: number): void {
    this.#conntrackDuration.observe({ ip_family: family }, seconds);
    this.#conntrackDeleted.inc({ ip_family: family }, deletedCount);
  }

  healthzAnswered(status: number): void {
    this.#healthz.inc({ code: status });
  }

  livezAnswered(status: number): void {
    this.#livez.inc({ code: status });
  }

  kernelChanges(kind: string, result: "success" | "failure", times: number): void {
    this.#kernelChanges.inc({ kind, result }, times);
  }

  objectRefused(resource: string, reason: string): void {
    this.#invalidFields.inc({ resource, reason });
  }

  listQuarantined(resource: string, outcome: string): void {
    this.#relistGuardOutcomes.inc({ resource, outcome });
    this.#quarantinedLists.set({ resource }, outcome === "held" ? 1 : 0);
  }

  foreignVirtualServers(count: number): void {
    this.#foreignVirtualServers.set(count);
  }

  driftDetected(state: string): void {
    this.#driftDetected.inc({ state });
  }

  drifted(kind: string, action: string): void {
    this.#drift.inc({ kind, action });
  }

  manualWeights(count: number): void {
    this.#manualWeights.set(count);
  }

  suppressedRepairs(kind: string, count: number): void {
    this.#suppressedRepairs.set({ kind }, count);
  }

  refusedObjects(kind: string, reason: string, count: number): void {
    this.#refusedObjects.set({ kind, reason }, count);
  }

  pendingChanges(kind: string, count: number): void {
    this.#pendingChanges.set({ kind }, count);
  }

  conflicts(reason: string, count: number): void {
    this.#conflicts.set({ reason }, count);
  }

  ignoredAnnotations(reason: string, count: number): void {
    this.#ignoredAnnotations.set({ reason }, count);
  }

  draining(count: number, oldestAgeSeconds: number): void {
    this.#drainingRealServers.set(count);
    this.#oldestDrain.set(oldestAgeSeconds);
  }

  eventLoopDelayed(seconds: number): void {
    this.#eventLoopDelay.observe(seconds);
  }

  /** The fixed version of a build would be a mismatch to kubernetes-mixin in every other cluster. */
  serverVersion({ major, minor, gitVersion }: Parameters<Metrics["serverVersion"]>[0]): void {
    this.#buildInfo.reset();
    const platform = `linux/${process.arch === "x64" ? "amd64" : process.arch}`;
    this.#buildInfo.set({ major, minor, git_version: gitVersion, platform }, 1);
  }

  apiRequestAnswered(method: string, host: string, code: string): void {
    this.#apiRequests.inc({ code, method, host });
  }

  apiRequestEnded(
    verb: string,
    host: string,
    figures: Parameters<Metrics["apiRequestEnded"]>[2],
  ): void {
    const { seconds, sentBytes, receivedBytes } = figures;
    this.#apiDuration.observe({ verb, host }, seconds);
    this.#apiRequestSize.observe({ verb, host }, sentBytes);
    if (receivedBytes !== undefined) this.#apiResponseSize.observe({ verb, host }, receivedBytes);
  }

  #counter(row: MetricRow): Counter {
    return new Counter(this.#definition(row));
  }

  #gauge(row: MetricRow): Gauge {
    return new Gauge(this.#definition(row));
  }

  #histogram(row: MetricRow): Histogram {
    const buckets = [...bucketLists[row.buckets ?? "sync"]];
    return new Histogram({ ...this.#definition(row), buckets });
  }

  #definition({ name, help, labels }: MetricRow): {
    name: string;
    help: string;
    labelNames: string[];
    registers: Registry[];
  } {
    return { name, help, labelNames: [...labels], registers: [this.#registry] };
  }
}
