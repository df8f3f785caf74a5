/**
 * The Events that people see with kubectl. Reasons, actions and notes match kube-proxy's if it has the same Event.
 * Pure.
 */
import { conflictReasons } from "../../answer/reasons.ts";
import type { ClusterEvent } from "../../api/event.ts";
import type { ServiceName } from "../../api/objects.ts";
import type { ListenAddress } from "../../config/config.ts";
import type { AnnotationProblem } from "../../model/tuning.ts";
import type { Conflict } from "./conflicts.ts";

/** The Event that is recorded once, at startup. */
export function startingEvent(nodeName: string): ClusterEvent {
  return {
    type: "Normal",
    reason: "Starting",
    action: "StartKubeProxy",
    subject: { kind: "Node", namespace: "", name: nodeName },
    note: "",
  };
}

/** The program exits with an error. kube-proxy has no such Event. */
export function startFailedEvent(nodeName: string, error: string): ClusterEvent {
  return startWarning(nodeName, "CommandFailed", error);
}

/** The health or metrics port cannot be opened and bindAddressHardFail is set, so the program exits. */
export function serverFailedEvent(
  nodeName: string,
  server: "health" | "metrics",
  error: string,
): ClusterEvent {
  const reason =
    server === "health" ? "FailedToStartProxierHealthcheck" : "FailedToStartMetricServer";
  return startWarning(nodeName, reason, error);
}

/** A health-check node port cannot be opened and will be retried. */
export function healthPortFailedEvent(
  nodeName: string,
  service: ServiceName,
  { port }: Pick<ListenAddress, "port">,
  error: string,
): ClusterEvent {
  const note = `node ${nodeName} failed to start healthcheck "${service}" on port ${port}: ${error}`;
  return serviceWarning(service, "FailedToStartServiceHealthcheck", "Listen", note);
}

/** The kernel rejected an object of a Service. The change is retried with back-off. */
export function rejectedObjectEvent(
  nodeName: string,
  service: ServiceName,
  subject: string,
  { reason, error }: { readonly reason: string; readonly error: Error },
): ClusterEvent {
  const note = `node ${nodeName} cannot program ${subject} (${reason}): ${error.message}`;
  return serviceWarning(service, "KernelRefusedObject", "Sync", note);
}

/** A Service is not served at an address that it claims, or only in part. kube-proxy has no such Event. */
export function conflictEvent(
  nodeName: string,
  { reason, service, note, remedy }: Pick<Conflict, "reason" | "service" | "note" | "remedy">,
): ClusterEvent {
  const { event, isLocal = false } = conflictReasons[reason];
  const warning = `node ${nodeName}: ${note}; ${remedy}`;
  const isSeenByAllNodes = !isLocal;
  return { ...serviceWarning(service, event, "ServeAddress", warning), isSeenByAllNodes };
}

/**
 * In userspace mode, new connections to a Service are closed because it reached its connection limit. kube-proxy has no
 * such Event.
 */
export function connectionLimitEvent(nodeName: string, service: ServiceName): ClusterEvent {
  const note =
    `node ${nodeName} is closing new connections because the connection limit is reached; raise ` +
    "kubeIpvs.userspaceMaxServiceConnections or kubeIpvs.userspaceMaxConnections, or the open-file limit";
  return serviceWarning(service, "ConnectionLimitReached", "Connect", note);
}

/** A Service annotation is ignored, and the default applies. kube-proxy has no such Event. */
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
