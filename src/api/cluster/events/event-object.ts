/** The object that the API server stores: events.k8s.io/v1 Event. Pure. */
import type { ClusterEvent, EventSubject } from "../../event.ts";

/** As kube-proxy calls itself, so that filters and dashboards find the events. */
const reportingController = "kube-proxy";
/** The API server's limit for `note`, in bytes. */
const maxNoteBytes = 1_024;
const maxNameLength = 253;
/** Events about objects without a namespace live here. */
const fallbackNamespace = "default";

export interface EventStamp {
  /** Hex digits that no other event of this process has. */
  readonly serial: string;
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  /** `kube-proxy-<host name>`. */
  readonly reportingInstance: string;
}

export interface EventSeries {
  /** How often it happened, the first time included. */
  readonly count: number;
  readonly lastObservedMs: number;
}

/** Where an event is stored: the collection of a namespace. */
export function eventsPath({ namespace }: EventSubject): string {
  const where = encodeURIComponent(namespace === "" ? fallbackNamespace : namespace);
  return `/apis/events.k8s.io/v1/namespaces/${where}/events`;
}

/** `<object name>.<serial>`, as client-go names them; the serial alone where that is too long for a name. */
export function eventName({ name }: EventSubject, { serial }: EventStamp): string {
  const full = `${name}.${serial}`;
  return full.length <= maxNameLength ? full : serial;
}

/** The whole object, for its first time. */
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

/** A merge patch with the number of times that it has happened. */
export function seriesPatch({ count, lastObservedMs }: EventSeries): object {
  return { series: { count, lastObservedTime: microTime(lastObservedMs) } };
}

/** Equal texts: the same thing happened again to the same object. The note may differ, as in client-go. */
export function seriesKey({ type, reason, action, subject }: ClusterEvent): string {
  return JSON.stringify([type, reason, action, subject.kind, subject.namespace, subject.name]);
}

/** MicroTime of the API: RFC 3339 with six digits. */
function microTime(timeMs: number): string {
  return new Date(timeMs).toISOString().replace("Z", "000Z");
}

function cut(note: string): string {
  if (Buffer.byteLength(note) <= maxNoteBytes) return note;
  const kept = Buffer.from(note).subarray(0, maxNoteBytes - Buffer.byteLength("…"));
  // A character cut in two would become a longer replacement character.
  return `${new TextDecoder().decode(kept, { stream: true })}…`;
}
