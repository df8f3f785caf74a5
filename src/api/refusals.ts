import type { InvalidObject, Refusal } from "./source.ts";

/**
 * Every reason for ignoring a field or an object, and the words that follow the invalid value in the message. Logs,
 * metrics and tests use the same codes.
 */
export const refusalReasons = {
  "not-an-object": "is not an object",
  "not-a-list": "is not a list",
  "invalid-name": "is not a valid name: at most 253 letters, digits, dots, dashes and underscores",
  "invalid-label": "is not a short printable string",
  "invalid-annotation": "is not a string",
  "invalid-cluster-ip": "is not an IP address",
  "cluster-ip-family": "is not in the IP family given by spec.ipFamilies",
  "no-cluster-ip": "it has no valid cluster IP",
  "missing-cluster-ip":
    'is not a cluster IP, and kube-ipvs does not allocate cluster IPs; set an IP address or "None"',
  "special-address": "is an unspecified, loopback or multicast address",
  "unknown-ip-family": "is not IPv4 or IPv6",
  "unknown-service-type": "is not one of ClusterIP, NodePort, LoadBalancer, ExternalName",
  "invalid-port": "is not a port number from 1 to 65535",
  "missing-port-number":
    "is not a port number; EndpointSlice ports without a number, which mean all ports, are not supported",
  "missing-port-name": "is not a port name; the name of an unnamed port must be empty",
  "duplicate-port": "duplicates an earlier port of the same object",
  "no-usable-port": "it has no valid port",
  "unknown-protocol": "is not one of TCP, UDP, SCTP",
  "node-port-without-type": "is a node port, which is not allowed for type ClusterIP",
  "invalid-external-ip": "is not an IP address",
  "invalid-load-balancer-ip": "is not an IP address",
  "unknown-ip-mode": "is not VIP or Proxy",
  "invalid-source-range": "is not a CIDR such as 10.0.0.0/8",
  "no-valid-source-range": "has no valid range; all traffic to the load-balancer IPs is dropped",
  "unknown-session-affinity": "is not None or ClientIP",
  "invalid-affinity-timeout": "is not between 1 and 86400 seconds; using 10800",
  "unknown-traffic-policy": "is not Cluster or Local; using Cluster",
  "missing-service-label": "does not name the Service (label kubernetes.io/service-name)",
  "invalid-service-label": "is not the name of a Service",
  "unsupported-address-type": "is not IPv4 or IPv6",
  "missing-endpoint-address": "is not an endpoint address",
  "invalid-endpoint-address": "is not an IP address of the slice's address type",
  "link-local-endpoint": "is a link-local address, which endpoints must not have",
  "invalid-condition": "is not a boolean; ignoring the endpoint",
  "invalid-trigger-time": "is not an RFC 3339 time",
  "invalid-node-address": "is not an IP address",
  "invalid-node-weight": "is not a weight from 0 to 65535",
  "invalid-pod-address": "is not an IP address",
  "invalid-pod-cidr": "is not a CIDR such as 10.244.1.0/24",
  "invalid-manifest": "cannot be read as YAML or JSON",
  "unreadable-file": "cannot be read",
  "file-too-large": "is larger than 16 MiB",
  "empty-file": "is empty",
  "missing-kind": "is not a Kubernetes object: it has no kind",
  "unsupported-api-version": "is not a supported API version",
  "duplicate-object": "is already defined",
} as const;

export type RefusalReason = keyof typeof refusalReasons;

/** Receives a report of every ignored field or object. */
export type Refuse = (refusal: Refusal) => void;

/** The reason for ignoring an EndpointSlice that belongs to no Service, which the API allows. */
export const legalReason: RefusalReason = "missing-service-label";

/** Counts one more invalid field of an object. Keeps the first message, because later ones may be consequences. */
export function withRefusal(
  before: InvalidObject | undefined,
  { kind, subject, reason, message }: Refusal,
): InvalidObject | undefined {
  if (reason === legalReason) return before;
  if (before !== undefined) return { ...before, invalidFields: before.invalidFields + 1 };
  return { kind, subject, message, invalidFields: 1 };
}

/** The human-readable kind for messages. */
const kindNames: Readonly<Record<Refusal["kind"], string>> = {
  services: "Service",
  endpointslices: "EndpointSlice",
  nodes: "Node",
  pods: "Pod",
  manifest: "manifest",
};

/**
 * Builds a refusal. The message is "Cannot use spec.ports[0].port of Service default/web: 0 is not a port …". Without
 * `value`, it is "Cannot use Service default/web: it has no valid port". With `detail`, it is "Cannot use manifest
 * a.yaml: it cannot be read: EACCES …". Pure.
 */
export function refusal(part: {
  readonly kind: Refusal["kind"];
  readonly subject: string;
  readonly field: string;
  readonly reason: RefusalReason;
  /** The invalid value, which is shortened in the message. Omitted if the refusal is about the whole object. */
  readonly value?: unknown;
  /** Additional information, such as another program's error text or a position. */
  readonly detail?: string;
}): Refusal {
  const { kind, subject, field, reason } = part;
  const whole = `${kindNames[kind]} ${subject}`;
  const what = field === "" ? whole : `${field} of ${whole}`;
  const message = `Cannot use ${what}: ${explanation(part)}`;
  return { kind, subject, field, reason, message };
}

function explanation(part: {
  readonly reason: RefusalReason;
  readonly value?: unknown;
  readonly detail?: string;
}): string {
  const words = refusalReasons[part.reason];
  if (part.detail !== undefined) {
    return `it ${words}: ${printableText(part.detail, longestDetail)}`;
  }
  return "value" in part ? `${printable(part.value)} ${words}` : words;
}

const longestPrinted = 60;
const longestDetail = 150;

/**
 * Formats a value on one line. Text is quoted and shortened, and characters that are not printable are escaped. Pure.
 */
export function printable(value: unknown): string {
  if (typeof value === "string") return `"${printableText(value)}"`;
  if (value === undefined || value === null) return "an absent value";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object") return "an object";
  return String(value);
}

/** Shortens text and escapes quotes, backslashes and characters that are not printable. Adds no quotes. Pure. */
export function printableText(text: string, longest: number = longestPrinted): string {
  const shown = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return shown.replaceAll(/[^\p{L}\p{N}\p{P}\p{S} ]|["\\]/gu, escapeCharacter);
}

function escapeCharacter(character: string): string {
  if (character === '"' || character === "\\") return `\\${character}`;
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}
