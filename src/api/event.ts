import type { EndpointSliceRecord } from "./objects.ts";

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
  /** Each node finds this out for itself, so a few of them write it. */
  readonly isSeenByAllNodes?: boolean;
}

/** Takes events. Never waits, never throws; an event may be lost. */
export interface EventRecorder {
  record(event: ClusterEvent): void;
  /** Slices name the nodes of the cluster, which share the Events. */
  noteSlice?(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void;
}

/** Where nobody reads events: manifests, tests. */
export const silentEvents: EventRecorder = { record() {} };
