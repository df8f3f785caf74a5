/** A plan as `kube-ipvs plan` prints it. */

/** One change. `before` and `after` are present if the kind has them. */
export interface PlannedChange {
  readonly kind: string;
  readonly subject: { readonly type: string };
  /** For example `+ TCP 10.96.0.10:80 (rr)`. */
  readonly text: string;
  readonly before?: unknown;
  readonly after?: unknown;
  readonly services: readonly string[];
  readonly reason: string;
  /** Why the change is pending. Undefined if it is not. */
  readonly deferred?: string;
}

export interface PlannedChanges {
  readonly changes: readonly PlannedChange[];
  /** Foreign virtual servers that Services also request. */
  readonly conflicts: readonly string[];
}
