/** Renders the API object: events.k8s.io/v1 Event. Pure. */
import type { ClusterEvent, EventSubject } from "../../event.ts";

/** kube-proxy's name, so that existing filters and dashboards find the Events. */
const reportingController = "kube-proxy";
/** The API server's limit for `note`, in bytes. */
const maxNoteBytes = 1_024;
const maxNameLength = 253;
/** Namespace of Events about objects without a namespace. */
const fallbackNamespace = "default";

export interface EventStamp {
  /** The last part of an Event's name: hex digits that are unique within this process. */
  readonly serial: string;
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  /** `kube-proxy-HOSTNAME`. */
  readonly reportingInstance: string;
}

export interface EventSeries {
  /** Number of occurrences, including the first one. */
  readonly count: number;
  readonly lastObservedMs: number;
}

/** Path of the Events in the subject's namespace. */
export function eventsPath({ namespace }: EventSubject): string {
  const where = encodeURIComponent(namespace === "" ? fallbackNamespace : namespace);
  return `/apis/events.k8s.io/v1/namespaces/${where}/events`;
}

/** `OBJECT.SERIAL`, as in client-go, or only the serial if the full name would be too long. */
export function eventName({ name }: EventSubject, { serial }: EventStamp): string {
  const full = `${name}.${serial}`;
  return full.length <= maxNameLength ? full : serial;
}

/** The complete object, for the first occurrence. */
export function eventObject(
  { type, reason, action, subject, note }: ClusterEvent,
  stamp: EventStamp,
): Readonly<Record<string, unknown>> {
  const { kind, name, namespace } = subject;
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: {
      name: eventName(subject, stamp),
      namespace: namespace === "" ? fallbackNamespace : namespace,
    },
    eventTime: microTime(stamp.timeMs),
    reportingController,
    reportingInstance: stamp.reportingInstance,
    type,
    reason,
    action,
    regarding: { apiVersion: "v1", kind, name, ...(namespace === "" ? {} : { namespace }) },
    note: cut(note),
  };
}

/** A merge patch with the number of occurrences. */
export function seriesPatch({ count, lastObservedMs }: EventSeries): object {
  return { series: { count, lastObservedTime: microTime(lastObservedMs) } };
}

/** Returns the same text for the same occurrence on the same object. As in client-go, the note may differ. */
export function seriesKey({ type, reason, action, subject }: ClusterEvent): string {
  return JSON.stringify([type, reason, action, subject.kind, subject.namespace, subject.name]);
}

/** The API's MicroTime: RFC 3339 with six fractional digits. */
function microTime(timeMs: number): string {
  return new Date(timeMs).toISOString().replace("Z", "000Z");
}

function cut(note: string): string {
  if (Buffer.byteLength(note) <= maxNoteBytes) return note;
  const kept = Buffer.from(note).subarray(0, maxNoteBytes - Buffer.byteLength("…"));
  // `stream` drops an incomplete character at the end instead of replacing it.
  return `${new TextDecoder().decode(kept, { stream: true })}…`;
}
