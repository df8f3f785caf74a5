/** Kinds of drift, as counted in `kube_ipvs_drift_total`. */
export const driftKinds = [
  "link",
  "address",
  "set",
  "entry",
  "virtual-server",
  "scheduler",
  "real-server",
  "weight",
  "chain",
  "rule",
  "jump",
  "sysctl",
] as const;

export type DriftKind = (typeof driftKinds)[number];

/** One thing that somebody else changed, in the words of the operator's tools. */
export interface Drift {
  readonly kind: DriftKind;
  /** `TCP 10.96.0.1:80 -> 10.244.1.5:8080`, `KUBE-CLUSTER-IP 10.96.0.1,tcp:80`, `IPv4 nat KUBE-SERVICES`. */
  readonly subject: string;
  readonly before: string;
  readonly after: string;
}

/** Stands in `before` or `after` for what is not there. */
export const absent = "absent";
export const present = "present";
