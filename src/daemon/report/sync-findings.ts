/** Describes the findings of a sync for logs and Events. Pure, except for clocks. */
import { foreignReason } from "../../answer/reasons.ts";
import type { ServiceName } from "../../api/objects.ts";
import { escapeUnprintable } from "../../base/printable.ts";
import type { AnnotationProblem } from "../../model/tuning.ts";
import type { ManualWeight } from "../../reconcile/status/manual-weights.ts";
import type { Rejection } from "../../reconcile/status/rejection.ts";
import type { ReconcileConflict } from "../../reconcile/status/repairs.ts";
import { subjectKey, subjectText } from "../../reconcile/subject.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import { annotationEvent, rejectedObjectEvent } from "./events.ts";
import type { Finding } from "./findings.ts";
import type { ReportTargets } from "./loop-reporter.ts";

/** A change that the kernel rejects. */
export function rejectionFinding(
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

/** A third party keeps reverting a repair. */
export function revertedFinding({
  kind,
  subject,
  driftCount,
  pauseMs,
}: ReconcileConflict): Finding {
  const keys = { kind, subject: subjectText(subject), reason: "reverted" };
  return {
    key: subjectKey(subject),
    begins: "A third party keeps reverting a repair, backing off",
    keys: { ...keys, times: driftCount, backOff: `${pauseMs / 1000}s` },
    ends: "Repair is no longer reverted",
  };
}

/** A weight that a third party set, with the virtual server's Service. */
export interface OwnedWeight extends ManualWeight {
  readonly service: ServiceName | undefined;
}

export function manualWeightFinding(one: OwnedWeight): Finding {
  const { service, weight, plannedWeight } = one;
  return {
    key: `${manualWeightText(one)} ${weight}`,
    begins: "Keeping weight that a third party set",
    keys: {
      ...(service === undefined ? {} : { service }),
      realServer: manualWeightText(one),
      ...{ weight, plannedWeight, reason: "manual-weight" },
      advice: `Set it back with ipvsadm -e -w ${plannedWeight}, or set kubeIpvs.manualWeights: repair`,
    },
    ends: "Weight that a third party set no longer exists",
  };
}

/** Names the real server in the same form as other log lines. */
export function manualWeightText({ virtualServerKey, realServerKey }: ManualWeight): string {
  const ids = { virtualServer: virtualServerKey, realServer: realServerKey };
  return subjectText({ type: "real-server", ...ids });
}

/** An ignored Service annotation. */
export interface IgnoredAnnotation extends AnnotationProblem {
  readonly service: ServiceName;
}

/** Collects ignored annotations. Their names and values are user input, so they are escaped and truncated. */
export function ignoredAnnotations(
  problems: ReadonlyMap<ServiceName, readonly AnnotationProblem[]>,
): readonly IgnoredAnnotation[] {
  return [...problems].flatMap(([service, list]) =>
    list.map((problem) => ({
      service,
      ...problem,
      annotation: printable(problem.annotation),
      value: printable(problem.value),
    })),
  );
}

const longestPrinted = 80;

function printable(text: string): string {
  return escapeUnprintable(
    text.length > longestPrinted ? `${text.slice(0, longestPrinted)}…` : text,
  );
}

export function annotationFinding(nodeName: string, ignored: IgnoredAnnotation): Finding {
  const { service, annotation, value, reason, message } = ignored;
  return {
    key: [service, annotation, reason, value].join(" "),
    begins: "Ignoring annotation",
    keys: { service, annotation, value, reason, message },
    events: [annotationEvent(nodeName, service, ignored)],
  };
}

export function foreignServerFinding({ virtualServer }: FoundServer): Finding {
  return {
    key: virtualServer,
    level: "info",
    begins: "Keeping foreign virtual server",
    keys: { virtualServer, reason: foreignReason },
  };
}

export interface FoundServer {
  readonly virtualServer: ServerKey;
}

/** A virtual server that is ours according to its real servers alone. The operator must decide whether to remove it. */
export function possiblyOwnedFinding({ virtualServer }: FoundServer): Finding {
  return {
    key: virtualServer,
    begins: "Virtual server may be a leftover of this proxy",
    keys: {
      virtualServer,
      reason: "possibly-owned",
      advice:
        "Its real servers are endpoints of Services, but neither an ipset nor the state file contains it. If it is not used, remove it with ipvsadm -D",
    },
  };
}
