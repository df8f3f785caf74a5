/** The reasons in rows of Services and endpoints: why an address is not served, or an endpoint gets no new connections. */
import type { ServiceRow } from "./rows.ts";

/** Another Service or other software owns the address and port. */
export const lostReason = "claimed-by-another-service";
export const foreignReason = "foreign-virtual-server";

interface Reason {
  /** Advice, unless the reason says everything. */
  readonly remedy?: string;
  /** Whether Kubernetes or the operator intends this. */
  readonly isIntended?: true;
}

/** Other reasons are errno names, `pending`, and reasons of conflicts, which have their own remedies. */
export const reasons: Readonly<Record<string, Reason>> = {
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
      "a third party removed the real server or set its weight to 0; the next verification repairs it",
  },
  "manual-weight": {
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

/** Whether an address is served by its endpoints, as far as the row knows them. */
export function isAsIntended({ reason, realServers, endpoints = [] }: ServiceRow): boolean {
  const found = [reason, ...endpoints.map((one) => one.reason)];
  if (found.some((one) => one !== undefined && reasons[one]?.isIntended !== true)) return false;
  return reason !== undefined || realServers.planned === 0 || realServers.programmed > 0;
}
