import type { PortRange } from "../base/port-range.ts";
import type { SchedulerFlag } from "../base/scheduler.ts";

/** Behavior of one Service's virtual servers. Annotations override the configuration. */
export interface Tuning {
  /** Name of the scheduler, as for `ipvsadm -s`. */
  readonly scheduler: string;
  /** If undefined, kube-proxy's flags apply: `mh-port` with `mh`, otherwise none. */
  readonly schedulerFlags?: readonly SchedulerFlag[];
  /** UDP only: whether each datagram is scheduled separately. */
  readonly onePacket?: boolean;
  /** This node's limit for each endpoint. Unlimited if undefined or if `upper` is 0. */
  readonly maxConnections?: ConnectionLimit;
  /** If undefined, the configured drain deadline of the protocol applies. */
  readonly drainDeadlineSeconds?: number;
  /** Source of the endpoints' weights. If undefined, all weights are equal. */
  readonly weights?: (typeof weightSources)[number] | WeightPage;
  /** Duration of a new endpoint's slow start. No slow start if undefined or 0. */
  readonly slowStartMs?: number;
  /** Minimum duration of an endpoint's first ejection. If undefined or 0, endpoints are never ejected. */
  readonly outlierEjectionMs?: number;
  /** The canary group. Undefined if the Service has none. */
  readonly canary?: Canary;
  /** Which endpoints this node prefers. Undefined if it uses all. */
  readonly preference?: TopologyPreference;
  /** Whether packets to external addresses are forwarded to other nodes through tunnels, with the client's address. */
  readonly isTunneled?: boolean;
  /** Port ranges that the Service serves in addition to its ports. Undefined if there are none. */
  readonly portRanges?: readonly PortRange[];
}

/**
 * An endpoint that reaches `upper` connections gets no new ones until it has fewer than `lower`. If `lower` is 0, the
 * kernel uses three quarters of `upper`.
 */
export interface ConnectionLimit {
  readonly upper: number;
  readonly lower: number;
}

/** `node`: a label of the endpoint's Node. `slice`: an annotation of its EndpointSlice. */
export const weightSources = ["equal", "node", "slice"] as const;

/** Each endpoint answers requests for this path at this port with its own weight, from 0 to {@link largestAnswer}. */
export interface WeightPage {
  readonly port: number;
  readonly path: string;
}

export const largestAnswer = 100;

/** The result of this node's requests to an endpoint for its weight. */
export interface WeightAnswer {
  /** The last valid answer. Undefined if several requests since then have failed. */
  readonly weight?: number;
  /** Why several requests in a row have failed. Undefined if the last answer was valid. */
  readonly problem?: string;
}

/** A group of endpoints, and the percentage of new connections that the group gets. */
export interface Canary {
  readonly by: "slice" | "zone";
  readonly name: string;
  readonly percent: number;
}

/**
 * Prefers endpoints on Nodes that have the same value of a label as this node. Applies if these Nodes' share of the
 * Service's endpoints is at least `minimumPercent` of their share of all Nodes.
 */
export interface TopologyPreference {
  readonly label: string;
  readonly minimumPercent: number;
}

/** Number of steps in which a new endpoint's weight grows. */
export const rampSteps = 10;

/** Why an annotation is ignored. Logs, metrics and Events use the same words. */
export const annotationReasons = [
  // No annotation under kube-ipvs.io/ has this name.
  "unknown-annotation",
  "invalid-annotation",
  // The scheduler is not one of Linux's, and the administrator does not allow it.
  "scheduler-not-allowed",
  // The kernel has no such scheduler.
  "scheduler-unavailable",
  // Endpoints failed several times in a row to answer with a valid weight.
  "invalid-weight-answer",
  // The annotation is valid but has no effect in combination with the Service's other settings.
  "annotation-without-effect",
] as const;

/** An ignored annotation. */
export interface AnnotationProblem {
  readonly annotation: string;
  readonly value: string;
  readonly reason: (typeof annotationReasons)[number];
  /** What the value must be, or why the annotation has no effect. */
  readonly message: string;
}
