import type { IpFamily } from "../../base/ip.ts";
import type { Change, ChangeKind } from "../change.ts";
import type { ObservedPart } from "../observed/observer.ts";
import type { Failure } from "../report.ts";
import type { Subject } from "../subject.ts";

/** One change that the kernel refused; it is as it was. */
export interface RefusedChange {
  readonly change: Change;
  readonly error: Error;
}

/** A request of which nothing is known: the reply was lost, or the time was up. The kernel may have carried it out. */
export interface UnknownOutcome {
  readonly kind: ChangeKind;
  readonly first: Subject;
  /** How many changes it was. */
  readonly count: number;
  readonly error: Error;
  /** To be observed again; absent where nothing is cached of it. */
  readonly part?: ObservedPart;
}

/** One pass through the connection table. */
export interface ConntrackPass {
  readonly family: IpFamily;
  readonly elapsedMs: number;
  readonly deletedCount: number;
}

/** What came of the changes of a plan. Every change is done, refused, blocked or part of an unknown outcome. */
export interface Outcomes {
  /** By kind; kinds without one are absent. */
  readonly done: ReadonlyMap<ChangeKind, number>;
  readonly refused: readonly RefusedChange[];
  /** Not tried, since something it depends on was refused. */
  readonly blocked: readonly Change[];
  /** Withdrawals that were tried: of what was there and lost a dependency. */
  readonly withdrawn: readonly Change[];
  readonly unknown: readonly UnknownOutcome[];
  /** What could not be read. */
  readonly unread: readonly Failure[];
  readonly conntrackPasses: readonly ConntrackPass[];
}

/** Collects outcomes while a plan is applied. */
export class OutcomeCollector implements Outcomes {
  readonly done: Map<ChangeKind, number> = new Map();
  refused: RefusedChange[] = [];
  blocked: Change[] = [];
  readonly withdrawn: Change[] = [];
  readonly unknown: UnknownOutcome[] = [];
  readonly unread: Failure[] = [];
  readonly conntrackPasses: ConntrackPass[] = [];

  count(kind: ChangeKind, times = 1): void {
    if (times > 0) this.done.set(kind, (this.done.get(kind) ?? 0) + times);
  }

  notePass(pass: ConntrackPass): void {
    this.conntrackPasses.push(pass);
    this.count("conntrack-delete", pass.deletedCount);
  }

  /** Hands over those of which this is true: they are tried again. */
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
