import type { IpFamily } from "../../base/ip.ts";
import type { Change, ChangeKind } from "../change.ts";
import type { ObservedPart } from "../observed/observer.ts";
import type { Failure } from "../report.ts";
import type { Subject } from "../subject.ts";

/** A change that the kernel rejected. The object is unchanged. */
export interface RefusedChange {
  readonly change: Change;
  readonly error: Error;
}

/** A request whose outcome is unknown, because it timed out or its reply was lost. The kernel may have executed it. */
export interface UnknownOutcome {
  readonly kind: ChangeKind;
  readonly first: Subject;
  /** Number of changes in the request. */
  readonly count: number;
  readonly error: Error;
  /** The part of the kernel state that must be observed again. Undefined if this state is not cached. */
  readonly part?: ObservedPart;
}

/** One check of the connection table. */
export interface ConntrackPass {
  readonly family: IpFamily;
  readonly elapsedMs: number;
  readonly deletedCount: number;
}

/**
 * The outcomes of a plan's changes, collected while the plan is applied. Each change is done, rejected, withheld, or
 * part of a request with an unknown outcome.
 */
export class Outcomes {
  /** Number of successful changes by kind. Kinds without successful changes are omitted. */
  readonly done: Map<ChangeKind, number> = new Map();
  refused: RefusedChange[] = [];
  /** Changes that were not attempted, because a dependency does not exist. */
  blocked: Change[] = [];
  /** Attempted withdrawals of existing resources that lost a dependency. */
  readonly withdrawn: Change[] = [];
  readonly unknown: UnknownOutcome[] = [];
  /** Kernel state that could not be read. */
  readonly unread: Failure[] = [];
  readonly conntrackPasses: ConntrackPass[] = [];

  count(kind: ChangeKind, times = 1): void {
    if (times > 0) this.done.set(kind, (this.done.get(kind) ?? 0) + times);
  }

  notePass(pass: ConntrackPass): void {
    this.conntrackPasses.push(pass);
    this.count("conntrack-delete", pass.deletedCount);
  }

  /** Removes and returns the rejected changes that match, so that they can be retried. */
  takeRefused(isTaken: (refused: RefusedChange) => boolean): readonly RefusedChange[] {
    const { refused } = this;
    this.refused = refused.filter((one) => !isTaken(one));
    return refused.filter(isTaken);
  }

  takeBlocked(): readonly Change[] {
    const { blocked } = this;
    this.blocked = [];
    return blocked;
  }
}
