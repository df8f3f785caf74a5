/** What a kind is: how its changes are sent, folded into the cache, and told. The registry is `kinds.ts`. */
import type { FailedChange, Iptables, Kernel } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import type { Change, ChangeKind, ChangeOf } from "../change.ts";
import type { Drift } from "../drift.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { Differences } from "../observed/difference.ts";
import type { ObservedPart } from "../observed/observer.ts";
import type { Subject } from "../subject.ts";

/** Changes that are encoded and sent together: a few datagrams. Between two batches the event loop has its turn. */
export const changesPerBatch = 2_000;

export interface FoldContext {
  readonly cached: CachedState;
  /** Lists that become as desired are the desired ones: in memory once, and free to compare. */
  readonly desired: Pick<DesiredView, "virtualServer">;
  readonly kernel: { readonly iptables: Pick<Iptables, "render"> };
}

export interface Kind<C> {
  subject(change: C): Subject;
  /** The part of the cache that holds it; undefined if nothing is cached. */
  readonly part?: ObservedPart;
  /** Neighbors with the same key share a request. Undefined: each change is sent alone. */
  requestKey?(change: C): string;
  /** A request is a transaction, however many changes it has. */
  readonly isTransaction?: true;
  /** Resolves with what the kernel rejected. Rejects if the outcome is unknown. */
  send(changes: readonly C[], kernel: Kernel): Promise<readonly FailedChange[]>;
  /** What the kernel holds once the change is done. */
  fold?(change: C, context: FoldContext): unknown;
  /** In brackets behind the subject. */
  detail?(change: C): string;
  /** What a third party did, if this change puts it right. */
  drift?(change: C, differences: Differences): DriftTexts;
}

export type DriftTexts = readonly Omit<Drift, "subject">[];

export type Kinds<Name extends ChangeKind> = { readonly [Each in Name]: Kind<ChangeOf<Each>> };

/** Sends one change. What its request rejects with is a rejection of the change, unless the outcome is unknown. */
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
