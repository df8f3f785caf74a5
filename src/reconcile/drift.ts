/** Describes changes by third parties. */
import type { Subject } from "./subject.ts";

/** Kinds of drift; also the label values in `kube_ipvs_drift_total`. */
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

/** A change that a third party made to one of our objects. */
export interface Drift {
  readonly kind: DriftKind;
  readonly subject: Subject;
  readonly before: string;
  readonly after: string;
}

/** The value of `before` or `after` if the object did not exist at that time. */
export const absent = "absent";
const present = "present";

type Texts = Pick<Drift, "before" | "after">;
/** `lost`: a third party removed one of our objects. `added`: it added an object that does not belong there. */
export const lost: Texts = { before: present, after: absent };
export const added: Texts = { before: absent, after: present };
