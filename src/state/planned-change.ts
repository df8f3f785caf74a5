/** A plan as `kube-ipvs plan` prints it. */

import type { IpFamily } from "../base/ip.ts";

/** One change. `before` and `after` are present if the kind has them. */
export interface PlannedChange {
  readonly kind: string;
  readonly subject: PlannedSubject;
  /** For example `+ TCP 10.96.0.10:80 (rr)`. */
  readonly text: string;
  readonly before?: unknown;
  readonly after?: unknown;
  readonly services: readonly string[];
  readonly reason: string;
  /** Why the change is pending, that is, must wait. Undefined if it can be made immediately. */
  readonly deferred?: string;
}

/** The object that changes. The type determines which fields are present. */
export interface PlannedSubject {
  /** For example `chain`, `virtual-server`, `real-server` or `entry`. */
  readonly type: string;
  readonly module?: string;
  readonly path?: string;
  readonly link?: string;
  readonly setName?: string;
  readonly entry?: string;
  readonly family?: IpFamily;
  readonly table?: string;
  readonly chainName?: string;
  /** For example `TCP 10.96.0.10:80`. */
  readonly virtualServer?: string;
  readonly realServer?: string;
  readonly address?: string;
}

export interface PlannedChanges {
  readonly changes: readonly PlannedChange[];
  /** Foreign virtual servers that Services also request. */
  readonly conflicts: readonly string[];
}
