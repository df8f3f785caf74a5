import type { ServiceName } from "../../api/objects.ts";
import type { DesiredState } from "../../plan/desired-state.ts";
import { driftKinds } from "../../reconcile/drift.ts";
import type { SyncReport } from "../../reconcile/report.ts";
import type { ReconcileConflict } from "../../reconcile/status/repairs.ts";
import { subjectText } from "../../reconcile/subject.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import { countBy, Findings } from "./findings.ts";
import {
  LoopReporter,
  type LoopSummary,
  type ModeFindings,
  type ReportTargets,
} from "./loop-reporter.ts";
import {
  type FoundServer,
  foreignServerFinding,
  manualWeightFinding,
  type OwnedWeight,
  possiblyOwnedFinding,
  revertedFinding,
} from "./sync-findings.ts";
import type { WeightSignals } from "./sync-history.ts";

/** Figures about the current drains. */
export interface DrainFigures {
  readonly count: number;
  readonly oldestAgeSeconds: number;
}

/** Findings that exist only in IPVS mode. */
export interface IpvsFindings extends ModeFindings {
  readonly desired: DesiredState;
  readonly drains: DrainFigures;
}

/** The reporter for IPVS mode. */
export class SyncReporter extends LoopReporter<IpvsFindings> {
  readonly #reverted: Findings<ReconcileConflict>;
  readonly #manualWeights: Findings<OwnedWeight>;
  readonly #foreign: Findings<FoundServer>;
  readonly #possiblyOwned: Findings<FoundServer>;

  constructor(targets: ReportTargets) {
    super(targets);
    this.#reverted = new Findings(
      targets,
      revertedFinding,
      countBy(
        targets.metrics.suppressedRepairs,
        ({ kind }) => ({ kind }),
        driftKinds.map((kind) => ({ kind })),
      ),
    );
    this.#manualWeights = new Findings(targets, manualWeightFinding);
    this.#foreign = new Findings(targets, foreignServerFinding);
    this.#possiblyOwned = new Findings(targets, possiblyOwnedFinding);
  }

  protected override noteFindings(findings: IpvsFindings, { report }: LoopSummary): void {
    this.#noteDrifts(report);
    if (report.failures.length === 0) this.#noteState(report, findings.desired);
    this.#drainFigures(findings.drains);
  }

  /** Call this when one of these numbers has changed. */
  noteWeightSignals(changed: Partial<WeightSignals>): void {
    for (const [signal, count] of Object.entries(changed)) {
      this.targets.metrics.weightSignals.set({ signal }, count);
    }
    this.history.weightSignals = { ...this.history.weightSignals, ...changed };
  }

  protected override figuresOf({ desired }: IpvsFindings): { readonly virtualServers: number } {
    return { virtualServers: [...desired.virtualServerKeys()].length };
  }

  /** Call this after each check of the draining real servers. */
  drained(report: SyncReport, drains: DrainFigures): void {
    this.countChanges(report);
    this.#drainFigures(drains);
    this.logFailures(report);
    if (report.failures.length > 0) return;
    this.history.rejections = report.rejections;
    this.rejections.replace(report.rejections);
  }

  /** Logs a line for each object that a third party changed. */
  #noteDrifts({ drifts }: SyncReport): void {
    const { metrics, log } = this.targets;
    for (const drift of drifts) {
      const { kind, subject, before, after, action } = drift;
      const changedBy = this.history.causeOf(drift);
      metrics.drift.inc({ kind, action });
      // The number of log lines per reason is limited. Each kind has its own reason, so that many lines of one kind do
      // not suppress the lines of other kinds.
      const keys = {
        ...{ kind, subject: subjectText(subject), before, after, action },
        ...(changedBy === undefined ? {} : { changedBy }),
      };
      log.warn("Kernel state changed by a third party", { ...keys, reason: `drift-${kind}` });
    }
  }

  /** Reports what a successful sync found in the kernel, apart from its changes. */
  #noteState(report: SyncReport, desired: DesiredState): void {
    const { reconcileConflicts, manualWeights, foreignServers, possiblyOwned } = report;
    const { metrics } = this.targets;
    this.#reverted.replace(reconcileConflicts);
    metrics.manualWeights.set(manualWeights.length);
    const serviceOf = (key: ServerKey): ServiceName | undefined => desired.servicesOfServer(key)[0];
    this.#manualWeights.replace(
      manualWeights.map((one) => ({ ...one, service: serviceOf(one.virtualServerKey) })),
    );
    metrics.foreignVirtualServers.set(foreignServers.length);
    this.#foreign.replace(foreignServers.map((virtualServer) => ({ virtualServer })));
    this.#possiblyOwned.replace(possiblyOwned.map((virtualServer) => ({ virtualServer })));
  }

  #drainFigures({ count, oldestAgeSeconds }: DrainFigures): void {
    this.targets.metrics.drainingRealServers.set(count);
    this.targets.metrics.oldestDrain.set(oldestAgeSeconds);
  }
}
