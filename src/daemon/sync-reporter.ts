import { type EventRecorder, silentEvents } from "../api/event.ts";
import type { NodeRecord } from "../api/objects.ts";
import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import type { IpFamily } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Trigger } from "../model/change-tracker.ts";
import { type DesiredState, trafficPolicies } from "../plan/desired-state.ts";
import { changeCount, type SyncReport } from "../reconcile/report.ts";
import { type Conflict, conflictReasons, conflictsOf } from "./conflicts.ts";
import { DriftReporter } from "./drift-reporter.ts";
import { conflictEvent } from "./events.ts";
import type { ProxyHealth } from "./proxy-health.ts";

/** What drains at the moment. */
export interface DrainFigures {
  readonly count: number;
  readonly oldestAgeSeconds: number;
}

/** What there is to say about one sync. */
export interface SyncSummary {
  readonly families: readonly IpFamily[];
  readonly report: SyncReport;
  /** The whole kernel state was compared. */
  readonly isFull: boolean;
  readonly serviceCount: number;
  /** Its changes were not made. */
  readonly isObserveOnly?: boolean;
  /** Services that were planned anew. */
  readonly plannedServiceCount: number;
  readonly elapsedMs: number;
  /** When the changes began in the cluster. */
  readonly triggers: readonly Trigger[];
  readonly desired: DesiredState;
  readonly drains: DrainFigures;
}

/** Failures told one by one; the rest is a number. */
const maxToldFailures = 10;

/** Turns what the loop does into metrics, health, log lines and events. */
export class SyncReporter {
  readonly #metrics: Metrics;
  readonly #health: ProxyHealth;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #tellConflict: (conflict: Conflict) => void;
  readonly #drifts: DriftReporter;
  /** Each is told when it appears, not with every sync. */
  #toldConflicts = new Set<string>();
  #contestedServers: readonly string[] = [];
  #toldForeign = new Set<string>();

  constructor(collaborators: {
    readonly metrics: Metrics;
    readonly health: ProxyHealth;
    readonly clock: Clock;
    readonly log: Logger;
    readonly events?: EventRecorder;
    readonly nodeName?: string;
  }) {
    this.#metrics = collaborators.metrics;
    this.#health = collaborators.health;
    this.#clock = collaborators.clock;
    this.#log = collaborators.log;
    const { events = silentEvents, nodeName = "" } = collaborators;
    this.#tellConflict = (conflict) => events.record(conflictEvent(nodeName, conflict));
    this.#drifts = new DriftReporter(collaborators);
  }

  /** The loop begins: health is judged from now on. */
  started(families: readonly IpFamily[]): void {
    for (const family of families) {
      this.#health.updated(family);
      this.#metrics.syncQueued(family);
    }
  }

  /** A sync is asked for. */
  queued(families: readonly IpFamily[]): void {
    for (const family of families) {
      this.#health.queued(family);
      this.#metrics.syncQueued(family);
    }
  }

  /** Counted once for each family, as upstream's two proxiers do. */
  serviceChanged(families: readonly IpFamily[], pendingCount: number): void {
    this.#metrics.serviceChanged(families.length, pendingCount);
  }

  sliceChanged(pendingCount: number): void {
    this.#metrics.endpointSliceChanged(pendingCount);
  }

  nodeChanged(node: NodeRecord | undefined): void {
    if (node !== undefined) this.#health.setNodeEligible(node.isEligible);
  }

  synced(summary: SyncSummary): void {
    const { report, families, elapsedMs } = summary;
    const hasWorked = report.failures.length === 0;
    for (const family of families) {
      this.#metrics.syncFinished(family, elapsedMs / 1000);
      if (!hasWorked) continue;
      this.#metrics.syncSucceeded(family);
      this.#health.updated(family);
    }
    this.#metrics.changesTaken();
    this.#metrics.syncRun(summary.isFull ? "full" : "partial", hasWorked ? "success" : "failure");
    if (summary.isObserveOnly === true) this.#drifts.pending(report);
    else this.#countChanges(report);
    this.#drifts.drifted(report);
    this.#drifts.storms(report);
    this.#countWithoutLocal(summary);
    this.#noteForeign(report);
    this.#drainFigures(summary.drains);
    if (hasWorked) this.#observeLatency(summary);
    this.#logFailures(report);
    this.#noteConflicts(summary);
    this.#logCompletion(summary);
  }

  /** A line for each family, as upstream's two proxiers write; here they share one sync. */
  #logCompletion({ families, report, elapsedMs, ...summary }: SyncSummary): void {
    for (const ipFamily of families) {
      this.#log.verbose(2, "SyncProxyRules complete", {
        ipFamily,
        elapsed: `${elapsedMs.toFixed(1)}ms`,
        full: summary.isFull,
        services: summary.serviceCount,
        planned: summary.plannedServiceCount,
        changes: changeCount(report),
        failures: report.failures.length,
      });
    }
  }

  /** A look between syncs found that somebody changed what we wrote; the sync after it tells what. */
  lost(state: string, names: readonly string[]): void {
    this.#metrics.stateLost(state);
    this.#log.verbose(2, "A look at kernel state found changes", {
      state,
      first: names[0],
      count: names.length,
    });
  }

  /** A look at the draining real servers is over. */
  drained(report: SyncReport, drains: DrainFigures): void {
    this.#countChanges(report);
    this.#drainFigures(drains);
    this.#logFailures(report);
  }

  #countChanges(report: SyncReport): void {
    for (const [kind, times] of report.changes) this.#metrics.kernelChanges(kind, "success", times);
    for (const { family, elapsedMs, removedCount } of report.flowSweeps) {
      this.#metrics.conntrackReconciled(family, elapsedMs / 1000, removedCount);
    }
    for (const { kind, subject } of report.failures) {
      this.#metrics.kernelChanges(kind, "failure", 1);
      if (kind === "rules-write") this.#metrics.iptablesRestoreFailed(subject as IpFamily);
    }
  }

  #countWithoutLocal({ desired, families }: SyncSummary): void {
    for (const family of families) {
      for (const policy of trafficPolicies) {
        const count = desired.withoutLocalEndpoints(policy, family);
        this.#metrics.noLocalEndpoints(policy, family, count);
      }
    }
  }

  /** Virtual servers of others are counted, and each is named once. */
  #noteForeign({ foreignServers }: SyncReport): void {
    if (foreignServers === undefined) return;
    this.#metrics.foreignVirtualServers(foreignServers.length);
    for (const virtualServer of foreignServers) {
      if (this.#toldForeign.has(virtualServer)) continue;
      this.#log.info("Virtual server is not ours and stays", {
        virtualServer,
        reason: "foreign-virtual-server",
      });
    }
    this.#toldForeign = new Set(foreignServers);
  }

  #drainFigures({ count, oldestAgeSeconds }: DrainFigures): void {
    this.#metrics.draining(count, oldestAgeSeconds);
  }

  #observeLatency({ triggers }: SyncSummary): void {
    const nowMs = this.#clock.nowMs();
    for (const { family, timeMs } of triggers) {
      this.#metrics.networkProgrammed(family, (nowMs - timeMs) / 1000);
    }
  }

  #logFailures({ failures }: SyncReport): void {
    for (const { kind, subject, error } of failures.slice(0, maxToldFailures)) {
      this.#log.error("Kernel change failed", { change: kind, subject, err: errorText(error) });
    }
    if (failures.length > maxToldFailures) {
      this.#log.error("More kernel changes failed", { count: failures.length - maxToldFailures });
    }
  }

  /** Services that do not get what they ask for: counted by reason, and each told once. */
  #noteConflicts({ desired, report }: SyncSummary): void {
    this.#contestedServers = report.contestedServers ?? this.#contestedServers;
    const conflicts = conflictsOf(desired, this.#contestedServers);
    for (const reason of conflictReasons) {
      const count = conflicts.filter((conflict) => conflict.reason === reason).length;
      this.#metrics.conflicts(reason, count);
    }
    const told = new Set<string>();
    for (const conflict of conflicts) {
      if (!this.#toldConflicts.has(conflict.key) && !told.has(conflict.key)) {
        this.#log.warn(conflict.event, { ...conflict.keys, reason: conflict.reason });
        this.#tellConflict(conflict);
      }
      told.add(conflict.key);
    }
    this.#toldConflicts = told;
  }
}
