import type { Refusal } from "./source.ts";

/**
 * Every reason for which a part of an object (or a whole one) is left out, with the words that follow the
 * offending value in the message. The codes are the same in logs, metrics and tests.
 */
export const refusalReasons = {
  "not-an-object": "is not an object",
  "not-a-list": "is not a list",
  "invalid-name": "is not a name of letters, digits, dots, dashes and underscores, 253 at most",
  "invalid-label": "is not a short printable text",
  "invalid-cluster-ip": "is not an IP address",
  "cluster-ip-family": "is not of the family that spec.ipFamilies gives it",
  "no-cluster-ip": "none of its cluster IPs is usable",
  "missing-cluster-ip":
    "is no cluster IP, and nothing allocates one here; give an address, or None",
  "special-address": "is an unspecified, loopback or multicast address",
  "unknown-ip-family": "is none of IPv4, IPv6",
  "unknown-service-type": "is none of ClusterIP, NodePort, LoadBalancer, ExternalName",
  "invalid-port": "is not a port number from 1 to 65535",
  "missing-port-number": "is not a port number; a slice port for all ports cannot be balanced",
  "missing-port-name": "is not a port name; an unnamed port has an empty one",
  "duplicate-port": "is taken by an earlier port of the same object",
  "no-usable-port": "none of its ports is usable",
  "unknown-protocol": "is none of TCP, UDP, SCTP",
  "node-port-without-type": "is a node port, which a Service of type ClusterIP cannot have",
  "invalid-external-ip": "is not an IP address",
  "invalid-load-balancer-ip": "is not an IP address",
  "unknown-ip-mode": "is none of VIP, Proxy",
  "invalid-source-range": "is not a CIDR such as 10.0.0.0/8",
  "no-valid-source-range": "holds no valid range; the load-balancer IPs stay closed",
  "unknown-session-affinity": "is none of None, ClientIP",
  "invalid-affinity-timeout": "is not a number of seconds from 1 to 86400; 10800 is used",
  "unknown-traffic-policy": "is none of Cluster, Local; Cluster is used",
  "missing-service-label": "does not name the Service (label kubernetes.io/service-name)",
  "unsupported-address-type": "is none of IPv4, IPv6",
  "missing-endpoint-address": "is not an endpoint address",
  "invalid-endpoint-address": "is not an IP address of the slice's address type",
  "invalid-condition": "is neither true nor false; the endpoint is not used",
  "invalid-trigger-time": "is not an RFC 3339 time",
  "invalid-node-address": "is not an IP address",
  "invalid-pod-cidr": "is not a CIDR such as 10.244.1.0/24",
  "invalid-manifest": "cannot be read as YAML or JSON",
  "unreadable-file": "cannot be read",
  "file-too-large": "is larger than 16 MiB",
  "missing-kind": "is not a Kubernetes object: it has no kind",
  "unsupported-api-version": "is an API version that is not read",
  "duplicate-object": "is already defined",
} as const;

export type RefusalReason = keyof typeof refusalReasons;

/** Where refusals go. */
export type Refuse = (refusal: Refusal) => void;

/** The object's kind as people write it, for messages. */
const kindNames: Readonly<Record<Refusal["kind"], string>> = {
  services: "Service",
  endpointslices: "EndpointSlice",
  nodes: "Node",
  manifest: "manifest",
};

/**
 * Composes a refusal: «Cannot use spec.ports[0].port of Service default/web: 0 is not a port …», or without
 * `value` «Cannot use Service default/web: none of its ports is usable», or with `detail` «Cannot use
 * manifest a.yaml: it cannot be read: EACCES …». Pure.
 */
export function refusal(part: {
  readonly kind: Refusal["kind"];
  readonly subject: string;
  readonly field: string;
  readonly reason: RefusalReason;
  /** What was found there, printed shortened; left out where the whole object is meant. */
  readonly value?: unknown;
  /** What is known beyond the reason: another program's words, a place. */
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

/** A value on one line: text in quotes and shortened, anything that is not printable escaped. Pure. */
export function printable(value: unknown): string {
  if (typeof value === "string") return `"${printableText(value)}"`;
  if (value === undefined || value === null) return "an absent value";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object") return "an object";
  return String(value);
}

/** Text without quotes, shortened, with control and formatting characters escaped. Pure. */
export function printableText(text: string, longest: number = longestPrinted): string {
  const shown = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return shown.replaceAll(/[^\p{L}\p{N}\p{P}\p{S} ]|["\\]/gu, escapeCharacter);
}

function escapeCharacter(character: string): string {
  if (character === '"' || character === "\\") return `\\${character}`;
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}
