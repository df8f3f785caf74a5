import type { SchedulerFlag } from "../base/scheduler.ts";

/** How the virtual servers of one Service behave: from its annotations, and from the configuration for what they leave out. */
export interface Tuning {
  /** As in `ipvsadm -s`. */
  readonly scheduler: string;
  /** Absent: as kube-proxy, which is `mh-port` under `mh` and none otherwise. */
  readonly schedulerFlags?: readonly SchedulerFlag[];
}

/** Why an annotation does not count; the same words in log, metric and Event. */
export type AnnotationReason =
  /** Nothing under kube-ipvs.io/ has this name. */
  | "unknown-annotation"
  | "invalid-annotation"
  /** The kernel has no such scheduler. */
  | "scheduler-unavailable"
  /** Valid, and without effect together with the other settings of the Service. */
  | "annotation-without-effect";

export const annotationReasons: readonly AnnotationReason[] = [
  "unknown-annotation",
  "invalid-annotation",
  "scheduler-unavailable",
  "annotation-without-effect",
];

/** An annotation that does not count. */
export interface AnnotationProblem {
  readonly annotation: string;
  readonly value: string;
  readonly reason: AnnotationReason;
  /** What it should be, or why it changes nothing. */
  readonly message: string;
}
