import type { EventRecorder } from "../../api/event.ts";
import type { NodeRecord } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";
import type { Trigger } from "../../model/change-tracker.ts";
import type { LimitedService } from "../../model/shares.ts";
import { type TrafficPolicy, trafficPolicies } from "../../model/topology.ts";
import type { LostClaim } from "../../plan/claims/claim.ts";
import type { ConntrackPass } from "../../reconcile/apply/outcome.ts";
import type { FamilySync } from "../../reconcile/iptables/family-reconciler.ts";
import { changeCount, type SyncReport } from "../../reconcile/report.ts";
import type { WaitingClaim } from "../node/unchecked-claims.ts";
import { ConflictReporter } from "./conflict-reporter.ts";
import { DryRunReporter, pendingChanges } from "./dry-run-reporter.ts";
import { FirstSync } from "./first-sync.ts";
import type { ProxyHealth } from "./proxy-health.ts";
import { RefusalReporter } from "./refusal-reporter.ts";
import { SyncHistory } from "./sync-history.ts";

/** Where reports go. */
export interface ReportTargets {
  readonly metrics: Metrics;
  readonly health: ProxyHealth;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly nodeName: string;
}

/** What there is to say about one sync, whatever the mode. */
export interface LoopSummary {
  readonly report: SyncReport;
  /** The whole kernel state was compared. */
  readonly isFull: boolean;
  /** Its changes were not made. */
  readonly isObserveOnly: boolean;
  readonly serviceCount: number;
  /** Services that were planned again. */
  readonly plannedServiceCount: number;
  /** When the changes began in the cluster. */
  readonly triggers: readonly Trigger[];
  readonly elapsedMs: number;
  /** Health-check node ports that another Service has. */
  readonly lostHealthPorts: readonly LostClaim[];
  /** External IPs that wait for a list of Nodes. */
  readonly waitingClaims: readonly WaitingClaim[];
  /** Services of which a part is not served. */
  readonly limitedServices: Iterable<LimitedService>;
}

/** Failures logged one by one; the rest is a number. */
const maxLoggedFailures = 10;

/** What the loops of IPVS and iptables mode report alike: what comes from the cluster, and what becomes of it. */
export class LoopReporter {
  protected readonly targets: ReportTargets;
  /** What the last syncs came to. */
  readonly history: SyncHistory;
  readonly firstSync: FirstSync;
  protected readonly conflicts: ConflictReporter;
  protected readonly refusals: RefusalReporter;
  readonly #dryRun: DryRunReporter;

  constructor(targets: ReportTargets) {
    this.targets = targets;
    this.history = new SyncHistory(targets.clock);
    this.conflicts = new ConflictReporter({ ...targets, history: this.history });
    this.refusals = new RefusalReporter(targets);
    this.#dryRun = new DryRunReporter(targets);
    this.firstSync = new FirstSync(targets);
  }

  /** The loop begins: health is judged from now on. */
  started(families: readonly IpFamily[]): void {
    for (const family of families) {
      this.targets.health.started(family);
      this.#noteQueued(family);
    }
  }

  /** A sync is asked for. */
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

  /** Counted once for each family, as upstream's two proxiers do. */
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

  /** A sync of a family ended. */
  protected noteFamily(family: IpFamily, elapsedMs: number, hasWorked: boolean): void {
    const { metrics, health, clock } = this.targets;
    metrics.syncDuration.observe({ ip_family: family }, elapsedMs / 1000);
    if (!hasWorked) return;
    metrics.syncLastTimestamp.set({ ip_family: family }, clock.nowMs() / 1000);
    health.updated(family);
  }

  /** A sync of all families ended; says whether it worked. */
  protected noteSync({ report, isFull, isObserveOnly, elapsedMs }: LoopSummary): boolean {
    const { metrics } = this.targets;
    const hasWorked = report.failures.length === 0;
    this.history.noteSync(report, { isFull, elapsedMs });
    metrics.serviceChangesPending.set(0);
    metrics.endpointChangesPending.set(0);
    const kind = isFull ? "full" : "partial";
    metrics.syncRuns.inc({ kind, result: hasWorked ? "success" : "failure" });
    if (!isObserveOnly) this.countChanges(report);
    else if (hasWorked) this.#dryRun.planned(pendingChanges(report.plan));
    if (hasWorked) this.refusals.report(report.refusals);
    return hasWorked;
  }

  protected countChanges(report: SyncReport): void {
    const { kernelChanges } = this.targets.metrics;
    for (const [kind, times] of report.changes) {
      kernelChanges.inc({ kind, result: "success" }, times);
    }
    for (const [kind, times] of report.refusedChanges) {
      kernelChanges.inc({ kind, result: "failure" }, times);
    }
    for (const { kind } of report.failures) kernelChanges.inc({ kind, result: "failure" });
    for (const family of report.failedRestores) {
      this.targets.metrics.iptablesRestoreFailures.inc({ ip_family: family });
    }
    for (const pass of report.conntrackPasses) countConntrackPass(pass, this.targets.metrics);
  }

  protected logFailures({ failures }: SyncReport): void {
    const { log } = this.targets;
    for (const { kind, subject, error } of failures.slice(0, maxLoggedFailures)) {
      const err = errorText(error);
      if (kind === "observe") log.error("Cannot read kernel state", { subject, err });
      else log.error("Kernel change failed", { change: kind, subject, err });
    }
    const others = failures.length - maxLoggedFailures;
    if (others > 0) log.error("More kernel requests failed", { count: others });
  }

  /** A line for each family, as upstream's two proxiers write. */
  protected logCompletion(
    family: Pick<FamilySync, "family" | "elapsedMs" | "isFull">,
    { report, serviceCount, plannedServiceCount }: Omit<LoopSummary, "isFull">,
  ): void {
    this.targets.log.verbose(2, "SyncProxyRules complete", {
      ipFamily: family.family,
      elapsed: `${family.elapsedMs.toFixed(1)}ms`,
      full: family.isFull,
      services: serviceCount,
      planned: plannedServiceCount,
      changes: changeCount(report),
      refused: report.refusals.present.length,
      failures: report.failures.length,
    });
  }

  protected countWithoutLocal(
    desired: { withoutLocalEndpoints(policy: TrafficPolicy, family: IpFamily): number },
    families: readonly IpFamily[],
  ): void {
    for (const family of families) {
      for (const policy of trafficPolicies) {
        const count = desired.withoutLocalEndpoints(policy, family);
        const labels = { traffic_policy: policy, ip_family: family };
        this.targets.metrics.noLocalEndpoints.set(labels, count);
      }
    }
  }

  /** From the change in the cluster to the kernel. */
  protected observeLatency(triggers: readonly Trigger[]): void {
    const { metrics, clock } = this.targets;
    const nowMs = clock.nowMs();
    for (const { family, timeMs } of triggers) {
      metrics.networkProgramming.observe({ ip_family: family }, (nowMs - timeMs) / 1000);
    }
  }
}

/** A check for stale conntrack entries that could list them; one that deletes nothing makes its series, too. */
export function countConntrackPass(
  { family, elapsedMs, deletedCount }: ConntrackPass,
  metrics: Pick<Metrics, "conntrackDuration" | "conntrackDeleted">,
): void {
  metrics.conntrackDuration.observe({ ip_family: family }, elapsedMs / 1000);
  metrics.conntrackDeleted.inc({ ip_family: family }, deletedCount);
}
