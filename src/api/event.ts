import type { EndpointSliceRecord } from "./objects.ts";

/** The object that a Kubernetes Event (events.k8s.io/v1) is about. */
export interface EventSubject {
  readonly kind: "Node" | "Service";
  /** Empty for a Node, because Nodes have no namespace. */
  readonly namespace: string;
  readonly name: string;
}

/** A Kubernetes Event, as `kubectl describe` shows it. */
export interface ClusterEvent {
  readonly type: "Normal" | "Warning";
  /** The reason, in CamelCase: for example `ConnectionLimitReached`. */
  readonly reason: string;
  /** The action of kube-ipvs that the Event is about, in CamelCase. */
  readonly action: string;
  readonly subject: EventSubject;
  /** Human-readable text. May be empty. */
  readonly note: string;
  /** Whether every node observes the same event. If so, only a few of the nodes write it. */
  readonly isSeenByAllNodes?: boolean;
}

/** Records Events. Never waits and never throws. An Event may be lost. */
export interface EventRecorder {
  record(event: ClusterEvent): void;
  /** Tells the recorder which nodes the EndpointSlices name. These nodes share the work of writing Events. */
  noteSlice?(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void;
}

/** Discards Events, for manifests and tests. */
export const silentEvents: EventRecorder = { record() {} };
