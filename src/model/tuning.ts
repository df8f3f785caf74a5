import type { SchedulerFlag } from "../base/scheduler.ts";

/** How the virtual servers of one Service behave: from its annotations, and from the configuration for what they leave out. */
export interface Tuning {
  /** As in `ipvsadm -s`. */
  readonly scheduler: string;
  /** If undefined, kube-proxy's flags apply: `mh-port` with `mh`, otherwise none. */
  readonly schedulerFlags?: readonly SchedulerFlag[];
  /** UDP: each datagram is scheduled alone. */
  readonly isOnePacket?: boolean;
  /** Of each endpoint on this node; absent, or `upper` 0: none. */
  readonly connectionLimit?: ConnectionLimit;
  /** If undefined, the protocol's setting applies. */
  readonly drainDeadlineSeconds?: number;
  /** Where the weights of endpoints come from; absent: all are equal. */
  readonly weights?: (typeof weightSources)[number];
  /** How long a new endpoint's weight grows; absent or 0: not at all. */
  readonly slowStartMs?: number;
  /** Undefined if there is none. */
  readonly canary?: Canary;
}

/** No new connections from `upper` on, until there are less than `lower`; 0: less than three quarters of `upper`. */
export interface ConnectionLimit {
  readonly upper: number;
  readonly lower: number;
}

/** `node`: a label of the endpoint's Node; `slice`: an annotation of its EndpointSlice. */
export const weightSources = ["equal", "node", "slice"] as const;

/** A part of the endpoints, and the percentage of new connections that it gets. */
export interface Canary {
  readonly by: "slice" | "zone";
  readonly name: string;
  readonly percent: number;
}

/** In so many steps a weight grows. */
export const rampSteps = 10;

/** Why an annotation does not count; the same words in log, metric and Event. */
export const annotationReasons = [
  // Nothing under kube-ipvs.io/ has this name.
  "unknown-annotation",
  "invalid-annotation",
  // Neither Linux nor the administrator names the scheduler.
  "scheduler-not-allowed",
  // The kernel has no such scheduler.
  "scheduler-unavailable",
  // Valid, and without effect together with the other settings of the Service.
  "annotation-without-effect",
] as const;

/** An annotation that does not count. */
export interface AnnotationProblem {
  readonly annotation: string;
  readonly value: string;
  readonly reason: (typeof annotationReasons)[number];
  /** What it should be, or why it changes nothing. */
  readonly message: string;
}
