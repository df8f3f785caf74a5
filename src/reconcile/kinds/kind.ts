/** A kind defines how its changes are sent, applied to the cache, and described. The registry is `kinds.ts`. */
import type { FailedChange, Kernel } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import type { Change, ChangeKind, ChangeOf } from "../change.ts";
import type { Drift } from "../drift.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { Differences } from "../observed/difference.ts";
import type { ObservedPart } from "../observed/observer.ts";
import type { Subject } from "../subject.ts";

/**
 * Maximum number of changes that are encoded and sent together in a few datagrams. The event loop runs between batches.
 */
export const changesPerBatch = 2_000;

export interface FoldContext {
  readonly cached: CachedState;
  /** The desired state. Its lists replace equal lists in the cache, which saves memory and makes comparisons free. */
  readonly desired: Pick<DesiredView, "virtualServer">;
}

export interface Kind<C> {
  subject(change: C): Subject;
  /** The part of the cache that contains the object. Undefined if the object is not cached. */
  readonly part?: ObservedPart;
  /** Consecutive changes with the same key share a request. If undefined, each change is sent separately. */
  requestKey?(change: C): string;
  /** True if each request is a single transaction, no matter how many changes it contains. */
  readonly isTransaction?: true;
  /** Resolves with the changes that the kernel rejected. Rejects if the outcome is unknown. */
  send(changes: readonly C[], kernel: Kernel): Promise<readonly FailedChange[]>;
  /** Applies a successful change to the cache. */
  fold?(change: C, context: FoldContext): unknown;
  /** Additional text, which is printed in parentheses after the subject. */
  detail?(change: C): string;
  /** Describes what a third party did, if this change repairs it. */
  drift?(change: C, differences: Differences): DriftTexts;
}

export type DriftTexts = readonly Omit<Drift, "subject">[];

export type Kinds<Name extends ChangeKind> = { readonly [Each in Name]: Kind<ChangeOf<Each>> };

/**
 * Sends one change per request. If the request fails, the change is treated as rejected, unless its outcome is unknown.
 */
export function alone<C extends Change>(
  request: (change: C, kernel: Kernel) => unknown,
): Kind<C>["send"] {
  return async ([change], kernel) => {
    try {
      if (change !== undefined) await request(change, kernel);
      return [];
    } catch (error) {
      if (isUnknown(error as Error)) throw error;
      return [{ index: 0, error: error as Error }];
    }
  };
}

function isUnknown(error: Error): boolean {
  const { code } = error as { readonly code?: unknown };
  return code === "ENOBUFS" || code === "ETIMEDOUT" || code === "EBADF";
}
