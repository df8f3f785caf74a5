/**
 * Why an address is not served as requested, why an endpoint gets no new connections, and why a plan keeps an object.
 * Logs, metrics, Events, `status`, `doctor`, `plan` and the REASON column use this table.
 */
import type { ReservedReason } from "../plan/options.ts";
import type { ServiceRow } from "./rows.ts";

/** Another Service or other software owns the address and port. */
export const lostReason = "claimed-by-another-service";
export const foreignReason = "foreign-virtual-server";

interface Reason {
  /** Completes a sentence, as in `10.0.0.1 is not served: it is an address of the node`. */
  readonly text?: string;
  /** How to fix the problem. Undefined if the reason is self-explanatory, or if each case has its own advice. */
  readonly remedy?: string;
  /** Whether Kubernetes or the operator intends this. If not, the node is degraded. */
  readonly isIntended?: true;
}

/** A reason why a Service does not get an address. */
interface ConflictTraits extends Reason {
  /** The Event's reason. */
  readonly event: string;
  /**
   * Whether the conflict depends on this node's addresses or virtual servers. Other nodes may not have such a conflict.
   */
  readonly isLocal?: true;
}

export type ConflictReason =
  | typeof lostReason
  | typeof foreignReason
  | "nodes-not-listed"
  | "service-limit"
  | "namespace-limit"
  | ReservedReason;

const reserved = { event: "ReservedAddress", isIntended: true } as const;
const reservedHere = { ...reserved, isLocal: true } as const;
const limited = { event: "LimitExceeded", isIntended: true } as const;

export const conflictReasons: Readonly<Record<ConflictReason, ConflictTraits>> = {
  [lostReason]: { event: "AddressClaimed" },
  [foreignReason]: {
    ...{ event: "ForeignVirtualServer", isLocal: true },
    text: "it belongs to other software",
  },
  "nodes-not-listed": reserved,
  "service-limit": limited,
  "namespace-limit": limited,
  "node-address": { ...reservedHere, text: "it is an address of the node" },
  "gateway-address": { ...reservedHere, text: "it is the address of a gateway of the node" },
  "broadcast-address": { ...reservedHere, text: "it is a broadcast address of the node" },
  "api-server-address": { ...reserved, text: "it is an API server address" },
  "other-node-address": { ...reserved, text: "it is an address of another Node" },
  "pod-address": { ...reserved, text: "it is in the pod CIDR of a Node" },
  "link-local-address": { ...reserved, text: "it is link-local" },
  "node-process-port": {
    ...reserved,
    text: "it is an address of the node, and a process of the node listens on the port",
  },
};

/** Other reasons in rows are errno names, `pending`, and those that only userspace mode has. */
export const rowReasons: Readonly<Record<string, Reason>> = {
  "not-ready": { remedy: "check the pod's readiness probe", isIntended: true },
  terminating: { isIntended: true },
  "not-local": { isIntended: true },
  "hinted-elsewhere": { isIntended: true },
  "not-preferred": { isIntended: true },
  "endpoint-removed": { isIntended: true },
  "held-by-node": { isIntended: true },
  blocked: { remedy: "kube-ipvs status names the object that the kernel rejected" },
  drifted: {
    remedy:
      "a third party removed the real server or set its weight to 0; the next verification restores it",
  },
  "manual-weight": {
    text: "a third party set its weight",
    remedy: "a third party set the weight to 0; set it back with ipvsadm -e",
    isIntended: true,
  },
  ejected: {
    remedy:
      "new connections failed, and so did a test connection from this node; the endpoint is used again when a test succeeds",
  },
  "zero-weight": {
    remedy: "an annotation, a Node label or the endpoint's own answer sets its weight to 0",
    isIntended: true,
  },
  reverted: { remedy: "stop the third party that keeps reverting the repair" },
};

export const reasons: typeof rowReasons = {
  ...conflictReasons,
  ...rowReasons,
  "referenced-by-third-party": { text: "a rule of other software still uses it" },
  "excluded-network": { text: "excludeCIDRs contains its address" },
};

/** Whether the address is served as Kubernetes and the operator intend. Checks endpoints only if the row lists them. */
export function isAsIntended({ reason, realServers, endpoints = [] }: ServiceRow): boolean {
  const found = [reason, ...endpoints.map((one) => one.reason)];
  if (found.some((one) => one !== undefined && reasons[one]?.isIntended !== true)) return false;
  return reason !== undefined || realServers.planned === 0 || realServers.programmed > 0;
}
