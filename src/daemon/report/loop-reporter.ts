import { conflictReasons } from "../../answer/reasons.ts";
import type { EventRecorder } from "../../api/event.ts";
import type { NodeRecord, ServiceName } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Logger, LogKeys } from "../../base/log.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";
import type { Trigger } from "../../model/change-tracker.ts";
import { type TrafficPolicy, trafficPolicies } from "../../model/topology.ts";
import { type AnnotationProblem, annotationReasons } from "../../model/tuning.ts";
import type { ConntrackPass } from "../../reconcile/apply/outcome.ts";
import type { FamilySync } from "../../reconcile/iptables/tables-reconciler.ts";
import { changeCount, type SyncReport } from "../../reconcile/report.ts";
import type { Rejection } from "../../reconcile/status/rejection.ts";
import { type Claimed, type Conflict, conflictsOf } from "./conflicts.ts";
import { DryRunReporter, type PendingChange, pendingChanges } from "./dry-run-reporter.ts";
import { conflictEvent } from "./events.ts";
import { countBy, Findings } from "./findings.ts";
import { FirstSync } from "./first-sync.ts";
import type { ProxyHealth } from "./proxy-health.ts";
import {
  annotationFinding,
  type IgnoredAnnotation,
  ignoredAnnotations,
  rejectionFinding,
} from "./sync-findings.ts";
import { SyncHistory } from "./sync-history.ts";

/** The recipients of reports. */
export interface ReportTargets {
  readonly metrics: Metrics;
  readonly health: ProxyHealth;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly nodeName: string;
}

/** The facts about one sync that all modes report. */
export interface LoopSummary extends Claimed {
  readonly report: SyncReport;
  readonly families: readonly IpFamily[];
  /** Whether the whole kernel state was compared. */
  readonly isFull: boolean;
  /** Whether the changes were only planned, not made. */
  readonly observeOnly: boolean;
  readonly serviceCount: number;
  /** Number of replanned Services. */
  readonly plannedServiceCount: number;
  /** The changes in the cluster that this sync applied, with their times. */
  readonly triggers: readonly Trigger[];
  readonly elapsedMs: number;
  /** Ignored annotations by Service. */
  readonly annotationProblems: ReadonlyMap<ServiceName, readonly AnnotationProblem[]>;
  readonly desired: Claimed["desired"] & {
    /** Number of service ports without local endpoints. If undefined, the metric is not set. */
    withoutLocalEndpoints?(policy: TrafficPolicy, family: IpFamily): number;
  };
}

/** Findings that exist only in some modes. */
export interface ModeFindings {
  /** The syncs of each family. Undefined if the families share one sync. */
  readonly passes?: readonly FamilySync[] | undefined;
  /** Whether metrics show the rules of each family. */
  readonly countsRules?: true;
  /** Values to log with the first successful sync. */
  readonly figures?: LogKeys;
  /** Further changes that a sync in observe-only mode would make. */
  readonly pending?: readonly PendingChange[];
}

/** A sync of one family. */
type FamilyPass = Pick<FamilySync, "family" | "elapsedMs" | "isFull" | "hasWorked">;

/** Reports cluster changes and sync results as metrics, health, log lines and Events. */
export class LoopReporter<Found extends ModeFindings = ModeFindings> {
  protected readonly targets: ReportTargets;
  /** The results of the last syncs. */
  readonly history: SyncHistory;
  readonly firstSync: FirstSync;
  readonly #conflicts: Findings<Conflict>;
  readonly #annotations: Findings<IgnoredAnnotation>;
  protected readonly rejections: Findings<Rejection>;
  readonly #dryRun: DryRunReporter;

  constructor(targets: ReportTargets) {
    this.targets = targets;
    this.history = new SyncHistory(targets.clock);
    const { metrics, nodeName } = targets;
    const conflictLabels = Object.keys(conflictReasons).map((reason) => ({ reason }));
    this.#conflicts = new Findings(
      targets,
      (conflict) => ({
        key: conflict.key,
        begins: conflict.event,
        keys: { ...conflict.keys, reason: conflict.reason },
        events: [conflictEvent(nodeName, conflict)],
      }),
      countBy(metrics.conflicts, ({ reason }) => ({ reason }), conflictLabels),
    );
    const annotationLabels = annotationReasons.map((reason) => ({ reason }));
    this.#annotations = new Findings(
      targets,
      (one) => annotationFinding(nodeName, one),
      countBy(metrics.ignoredAnnotations, ({ reason }) => ({ reason }), annotationLabels),
    );
    this.rejections = new Findings(
      targets,
      (one) => rejectionFinding(targets, one),
      countBy(metrics.refusedObjects, ({ subject, reason }) => ({ kind: subject.type, reason })),
    );
    this.#dryRun = new DryRunReporter(targets);
    this.firstSync = new FirstSync(targets);
  }

  /** Call this when the loop has started. Health is evaluated from then on. */
  started(families: readonly IpFamily[]): void {
    for (const family of families) {
      this.targets.health.started(family);
      this.#noteQueued(family);
    }
  }

  /** Call this when a sync was requested. */
  queued(families: readonly IpFamily[]): void {
    for (const family of families) {
      this.targets.health.queued(family);
      this.#noteQueued(family);
    }
  }

  #noteQueued(family: IpFamily): void {
    const { metrics, clock } = this.targets;
    metrics.syncLastQueued.set({ ip_family: family }, clock.nowMs() / 1000);
  }

  /** Counts a change once for each family, because kube-proxy has a proxier for each. */
  serviceChanged(families: readonly IpFamily[], pendingCount: number): void {
    const { serviceChanges, serviceChangesPending } = this.targets.metrics;
    serviceChanges.inc(families.length);
    serviceChangesPending.set(pendingCount);
  }

  sliceChanged(pendingCount: number): void {
    const { endpointChanges, endpointChangesPending } = this.targets.metrics;
    endpointChanges.inc();
    endpointChangesPending.set(pendingCount);
  }

  nodeChanged(node: NodeRecord | undefined): void {
    if (node !== undefined) this.targets.health.setNodeEligible(node.isEligible);
  }

  /** Call this when a verification between syncs has found no difference. */
  verifiedClean(): void {
    const { metrics, clock } = this.targets;
    metrics.lastCleanVerification.set(clock.nowMs() / 1000);
  }

  /**
   * Call this when a check between syncs has found that a third party changed our kernel state. `by`: the program, if
   * known.
   */
  driftDetected(state: "sets" | "rules", by?: string): void {
    this.history.tablesChangedBy = by;
    this.targets.metrics.driftDetected.inc({ state });
    this.targets.log.verbose(2, "Drift detected", { state });
  }

  /** Call this when a sync has ended. */
  synced(summary: LoopSummary, findings: Found): void {
    const { report, desired, families, elapsedMs, isFull } = summary;
    const hasWorked = this.#noteSync(summary, findings);
    const passes: readonly FamilyPass[] =
      findings.passes ?? families.map((family) => ({ family, elapsedMs, isFull, hasWorked }));
    for (const pass of passes) this.#noteFamily(pass);
    this.#countWithoutLocal(desired, families);
    this.history.ignoredAnnotations = this.#annotations.replace(
      ignoredAnnotations(summary.annotationProblems),
    );
    this.noteFindings(findings, summary);
    this.logFailures(report);
    for (const pass of passes) this.#logCompletion(pass, summary);
    if (!hasWorked) return;
    this.#observeLatency(summary.triggers);
    this.history.conflicts = this.#conflicts.replace(conflictsOf(summary, report.conflicts));
    this.firstSync.succeeded(summary, () => this.figuresOf(findings));
  }

  /** Reports findings of this mode. */
  protected noteFindings({ passes = [], countsRules }: Found, summary: LoopSummary): void {
    if (countsRules) for (const pass of passes) this.#countRules(pass, summary);
  }

  #countRules(
    { family, elapsedMs, isFull, totalRules, writtenRules }: FamilySync,
    { report, observeOnly }: LoopSummary,
  ): void {
    const { metrics } = this.targets;
    const duration = isFull ? metrics.fullSyncDuration : metrics.partialSyncDuration;
    duration.observe({ ip_family: family }, elapsedMs / 1000);
    for (const [table, count] of totalRules) {
      const labels = { ip_family: family, table };
      metrics.iptablesRules.set(labels, count);
      metrics.iptablesRulesWritten.set(labels, writtenRules.get(table) ?? 0);
    }
    if (observeOnly || isFull || !report.failedRestores.includes(family)) return;
    metrics.partialRestoreFailures.inc({ ip_family: family });
  }

  /** Values to log with the first successful sync. */
  protected figuresOf({ figures = {} }: Found): LogKeys {
    return figures;
  }

  #noteFamily({ family, elapsedMs, hasWorked }: FamilyPass): void {
    const { metrics, health, clock } = this.targets;
    metrics.syncDuration.observe({ ip_family: family }, elapsedMs / 1000);
    if (!hasWorked) return;
    metrics.syncLastTimestamp.set({ ip_family: family }, clock.nowMs() / 1000);
    health.updated(family);
  }

  /** Returns whether the sync succeeded. */
  #noteSync(summary: LoopSummary, { pending = [] }: Found): boolean {
    const { report, isFull, observeOnly, elapsedMs } = summary;
    const { metrics } = this.targets;
    const hasWorked = report.failures.length === 0;
    this.history.noteSync(report, { isFull, elapsedMs });
    metrics.serviceChangesPending.set(0);
    metrics.endpointChangesPending.set(0);
    const kind = isFull ? "full" : "partial";
    metrics.syncRuns.inc({ kind, result: hasWorked ? "success" : "failure" });
    if (!observeOnly) this.countChanges(report);
    else if (hasWorked) this.#dryRun.planned([...pending, ...pendingChanges(report.plan)]);
    if (hasWorked) this.rejections.replace(report.rejections);
    return hasWorked;
  }

  protected countChanges(report: SyncReport): void {
    const { kernelChanges } = this.targets.metrics;
    for (const [kind, times] of report.changes) {
      kernelChanges.inc({ kind, result: "success" }, times);
    }
    const rejected = report.rejected.map(({ change }) => change);
    for (const { kind } of [...rejected, ...report.failures])
      kernelChanges.inc({ kind, result: "failure" });
    for (const family of report.failedRestores) {
      this.targets.metrics.iptablesRestoreFailures.inc({ ip_family: family });
    }
    for (const pass of report.conntrackPasses) countConntrackPass(pass, this.targets.metrics);
  }

  protected logFailures({ failures }: SyncReport): void {
    const { log } = this.targets;
    for (const { kind, subject, error } of failures) {
      const err = errorText(error);
      if (kind === "observe") log.error("Cannot read kernel state", { subject, err });
      else log.error("Kernel change failed", { change: kind, subject, err });
    }
  }

  /** Logs a line for each family, because kube-proxy has a proxier for each. */
  #logCompletion(
    { family, elapsedMs, isFull }: FamilyPass,
    { report, serviceCount, plannedServiceCount }: LoopSummary,
  ): void {
    this.targets.log.verbose(2, "SyncProxyRules complete", {
      ipFamily: family,
      elapsed: `${elapsedMs.toFixed(1)}ms`,
      full: isFull,
      services: serviceCount,
      planned: plannedServiceCount,
      changes: changeCount(report),
      rejected: report.rejections.length,
      failures: report.failures.length,
    });
  }

  #countWithoutLocal(desired: LoopSummary["desired"], families: readonly IpFamily[]): void {
    for (const family of families) {
      for (const policy of trafficPolicies) {
        const count = desired.withoutLocalEndpoints?.(policy, family);
        const labels = { traffic_policy: policy, ip_family: family };
        if (count !== undefined) this.targets.metrics.noLocalEndpoints.set(labels, count);
      }
    }
  }

  /** Records in the latency metric how long it took from the change in the cluster to the kernel update. */
  #observeLatency(triggers: readonly Trigger[]): void {
    const { metrics, clock } = this.targets;
    const nowMs = clock.nowMs();
    for (const { family, timeMs } of triggers) {
      metrics.networkProgramming.observe({ ip_family: family }, (nowMs - timeMs) / 1000);
    }
  }
}

/** Counts the entries that a conntrack check deleted, even if there were none. Ignores a check that failed. */
export function countConntrackPass(
  { family, elapsedMs, deletedCount }: ConntrackPass,
  metrics: Pick<Metrics, "conntrackDuration" | "conntrackDeleted">,
): void {
  metrics.conntrackDuration.observe({ ip_family: family }, elapsedMs / 1000);
  metrics.conntrackDeleted.inc({ ip_family: family }, deletedCount);
}
