/** The events that people see with kubectl; reasons, actions and notes as kube-proxy's where it has them. Pure. */
import type { ClusterEvent, EventSubject } from "../../api/event.ts";
import type { ServiceName } from "../../api/objects.ts";
import type { ListenAddress } from "../../config/config.ts";
import type { AnnotationProblem } from "../../model/tuning.ts";
import type { Conflict, ConflictReason } from "./conflicts.ts";

const startAction = "StartKubeProxy";

/** Once for each start. */
export function startingEvent(nodeName: string): ClusterEvent {
  return {
    type: "Normal",
    reason: "Starting",
    action: startAction,
    subject: nodeSubject(nodeName),
    note: "",
  };
}

/** The program ends with an error; kube-proxy has no such event. */
export function startFailedEvent(nodeName: string, error: string): ClusterEvent {
  return {
    type: "Warning",
    reason: "CommandFailed",
    action: startAction,
    subject: nodeSubject(nodeName),
    note: error,
  };
}

/** A port of ours cannot be opened and bindAddressHardFail is set: the program ends. */
export function serverFailedEvent(
  nodeName: string,
  server: "health" | "metrics",
  error: string,
): ClusterEvent {
  const reason =
    server === "health" ? "FailedToStartProxierHealthcheck" : "FailedToStartMetricServer";
  return {
    type: "Warning",
    reason,
    action: startAction,
    subject: nodeSubject(nodeName),
    note: error,
  };
}

/** A health-check node port cannot be opened; it is retried. */
export function healthPortFailedEvent(
  nodeName: string,
  service: ServiceName,
  { port }: Pick<ListenAddress, "port">,
  error: string,
): ClusterEvent {
  return {
    type: "Warning",
    reason: "FailedToStartServiceHealthcheck",
    action: "Listen",
    subject: serviceSubject(service),
    note: `node ${nodeName} failed to start healthcheck "${service}" on port ${port}: ${error}`,
  };
}

/** The kernel refuses an object of a Service; it is retried with back-off. */
export function refusedObjectEvent(
  nodeName: string,
  service: ServiceName,
  subject: string,
  { reason, error }: { readonly reason: string; readonly error: Error },
): ClusterEvent {
  return {
    type: "Warning",
    reason: "KernelRefusedObject",
    action: "Sync",
    subject: serviceSubject(service),
    note: `node ${nodeName} cannot program ${subject} (${reason}): ${error.message}`,
  };
}

/** All others are addresses that the node needs. */
const conflictReasons: Readonly<Partial<Record<ConflictReason, string>>> = {
  "claimed-by-another-service": "AddressClaimed",
  "foreign-virtual-server": "ForeignVirtualServer",
};

/** A Service does not get an address that it asks for. kube-proxy has no such event. */
export function conflictEvent(
  nodeName: string,
  { reason, service, note, remedy }: Pick<Conflict, "reason" | "service" | "note" | "remedy">,
): ClusterEvent {
  return {
    type: "Warning",
    reason: conflictReasons[reason] ?? "ReservedAddress",
    action: "ServeAddress",
    subject: serviceSubject(service),
    note: `node ${nodeName}: ${note}; ${remedy}`,
  };
}

/** An annotation of a Service does not count; the default does. kube-proxy has no such event. */
export function annotationEvent(
  nodeName: string,
  service: ServiceName,
  { annotation, value, reason, message }: AnnotationProblem,
): ClusterEvent {
  return {
    type: "Warning",
    reason: "IgnoredAnnotation",
    action: "ReadAnnotations",
    subject: serviceSubject(service),
    note: `node ${nodeName} ignores ${annotation}: "${value}" (${reason}): ${message}`,
  };
}

function nodeSubject(name: string): EventSubject {
  return { kind: "Node", namespace: "", name };
}

/** `namespace/name` as a subject. */
function serviceSubject(service: ServiceName): EventSubject {
  const [namespace = "", name = ""] = service.split("/");
  return { kind: "Service", namespace, name };
}
