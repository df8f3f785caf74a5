/** The events that people see with kubectl; reasons, actions and notes as kube-proxy's where it has them. Pure. */
import type { ClusterEvent } from "../../api/event.ts";
import type { ServiceName } from "../../api/objects.ts";
import type { ListenAddress } from "../../config/config.ts";
import type { AnnotationProblem } from "../../model/tuning.ts";
import { type Conflict, conflictReasons } from "./conflicts.ts";

/** Once for each start. */
export function startingEvent(nodeName: string): ClusterEvent {
  return {
    type: "Normal",
    reason: "Starting",
    action: "StartKubeProxy",
    subject: { kind: "Node", namespace: "", name: nodeName },
    note: "",
  };
}

/** The program ends with an error; kube-proxy has no such event. */
export function startFailedEvent(nodeName: string, error: string): ClusterEvent {
  return startWarning(nodeName, "CommandFailed", error);
}

/** A port of ours cannot be opened and bindAddressHardFail is set: the program ends. */
export function serverFailedEvent(
  nodeName: string,
  server: "health" | "metrics",
  error: string,
): ClusterEvent {
  const reason =
    server === "health" ? "FailedToStartProxierHealthcheck" : "FailedToStartMetricServer";
  return startWarning(nodeName, reason, error);
}

/** A health-check node port cannot be opened; it is retried. */
export function healthPortFailedEvent(
  nodeName: string,
  service: ServiceName,
  { port }: Pick<ListenAddress, "port">,
  error: string,
): ClusterEvent {
  const note = `node ${nodeName} failed to start healthcheck "${service}" on port ${port}: ${error}`;
  return serviceWarning(service, "FailedToStartServiceHealthcheck", "Listen", note);
}

/** The kernel refuses an object of a Service; it is retried with back-off. */
export function refusedObjectEvent(
  nodeName: string,
  service: ServiceName,
  subject: string,
  { reason, error }: { readonly reason: string; readonly error: Error },
): ClusterEvent {
  const note = `node ${nodeName} cannot program ${subject} (${reason}): ${error.message}`;
  return serviceWarning(service, "KernelRefusedObject", "Sync", note);
}

/** A Service does not get an address that it asks for. kube-proxy has no such event. */
export function conflictEvent(
  nodeName: string,
  { reason, service, note, remedy }: Pick<Conflict, "reason" | "service" | "note" | "remedy">,
): ClusterEvent {
  const { event, isLocal = false } = conflictReasons[reason];
  const warning = `node ${nodeName}: ${note}; ${remedy}`;
  const isSeenByAllNodes = !isLocal;
  return { ...serviceWarning(service, event, "ServeAddress", warning), isSeenByAllNodes };
}

/** In userspace mode connections of a Service are closed, because it has as many as it may. kube-proxy has no such event. */
export function connectionLimitEvent(nodeName: string, service: ServiceName): ClusterEvent {
  const note =
    `node ${nodeName} closes new connections: the connection limit is reached; raise ` +
    "kubeIpvs.userspaceMaxServiceConnections or kubeIpvs.userspaceMaxConnections, or the limit of open files";
  return serviceWarning(service, "ConnectionLimitReached", "Connect", note);
}

/** An annotation of a Service does not count; the default does. kube-proxy has no such event. */
export function annotationEvent(
  nodeName: string,
  service: ServiceName,
  { annotation, value, reason, message }: AnnotationProblem,
): ClusterEvent {
  const note = `node ${nodeName} ignores ${annotation}: "${value}" (${reason}): ${message}`;
  return {
    ...serviceWarning(service, "IgnoredAnnotation", "ReadAnnotations", note),
    isSeenByAllNodes: true,
  };
}

function startWarning(nodeName: string, reason: string, note: string): ClusterEvent {
  return { ...startingEvent(nodeName), type: "Warning", reason, note };
}

function serviceWarning(
  service: ServiceName,
  reason: string,
  action: string,
  note: string,
): ClusterEvent {
  const [namespace = "", name = ""] = service.split("/");
  const subject = { kind: "Service", namespace, name } as const;
  return { type: "Warning", reason, action, subject, note };
}
