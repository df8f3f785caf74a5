/** What an event of the cluster (events.k8s.io/v1) is about. */
export interface EventSubject {
  readonly kind: "Node" | "Service";
  /** Empty for a Node, which is in no namespace. */
  readonly namespace: string;
  readonly name: string;
}

/** Something to show where an object is inspected with kubectl. */
export interface ClusterEvent {
  readonly type: "Normal" | "Warning";
  /** CamelCase, fixed: what happened. */
  readonly reason: string;
  /** CamelCase, fixed: what was being done. */
  readonly action: string;
  readonly subject: EventSubject;
  /** For people; may be empty. */
  readonly note: string;
}

/** Takes events. Never waits, never throws; an event may be lost. */
export interface EventRecorder {
  record(event: ClusterEvent): void;
}

/** Where nobody reads events: manifests, tests. */
export const silentEvents: EventRecorder = { record() {} };
