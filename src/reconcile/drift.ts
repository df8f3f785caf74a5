/** What a third party changed, in words. */
import type { Subject } from "./subject.ts";

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

/** One thing of ours that a third party changed. */
export interface Drift {
  readonly kind: DriftKind;
  readonly subject: Subject;
  readonly before: string;
  readonly after: string;
}

/** Stands in `before` or `after` for what is not there. */
export const absent = "absent";
const present = "present";

type Texts = Pick<Drift, "before" | "after">;
/** What we have to add, a third party took away. */
export const lost: Texts = { before: present, after: absent };
export const added: Texts = { before: absent, after: present };
