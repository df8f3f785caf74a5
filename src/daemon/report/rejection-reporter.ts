import { countRejections, type Rejection } from "../../reconcile/status/rejection.ts";
import { subjectKey, subjectText } from "../../reconcile/subject.ts";
import { rejectedObjectEvent } from "./events.ts";
import { type Finding, Findings } from "./findings.ts";
import type { ReportTargets } from "./loop-reporter.ts";

/**
 * Reports changes that the kernel rejects: a log line and an Event when a rejection begins, a log line when it ends,
 * and a gauge in between.
 */
export class RejectionReporter {
  readonly #targets: ReportTargets;
  readonly #findings: Findings<Rejection>;
  /** The gauge's non-zero series. */
  #counted = new Map<string, readonly [kind: string, reason: string]>();

  constructor(targets: ReportTargets) {
    this.#targets = targets;
    this.#findings = new Findings(targets, (one) => rejectionFinding(targets, one));
  }

  /** `present` contains all current rejections. */
  report(present: readonly Rejection[]): void {
    const { refusedObjects } = this.#targets.metrics;
    const counted = new Map<string, readonly [string, string]>();
    for (const { type, reason, count } of countRejections(present)) {
      refusedObjects.set({ kind: type, reason }, count);
      counted.set(`${type} ${reason}`, [type, reason]);
    }
    for (const [key, [kind, reason]] of this.#counted) {
      if (!counted.has(key)) refusedObjects.set({ kind, reason }, 0);
    }
    this.#counted = counted;
    this.#findings.replace(present);
  }
}

function rejectionFinding(
  { clock, nodeName }: Pick<ReportTargets, "clock" | "nodeName">,
  rejection: Rejection,
): Finding {
  const { subject, kind, reason, error, services, attempts, sinceMs } = rejection;
  const service = services.length > 1 ? services : services[0];
  const text = subjectText(subject);
  const elapsedMs = clock.monotonicMs() - sinceMs;
  return {
    key: subjectKey(subject),
    level: "error",
    begins: "Kernel rejected a change, retrying with back-off",
    keys: {
      ...{ change: kind, subject: text },
      ...(service === undefined ? {} : { service }),
      ...{ reason, err: error.message },
    },
    ends: "Kernel accepted a change that it had rejected",
    endKeys: { attempts, elapsedSeconds: Number((elapsedMs / 1000).toFixed(1)) },
    events: services.map((name) => rejectedObjectEvent(nodeName, name, text, rejection)),
  };
}
