/** What was asked of the fake kernel, in order, and which requests are to go wrong. */
import { errno } from "../../../src/base/errno.ts";
import type { FailedChange } from "../../../src/kernel/kernel.ts";
import { NetlinkError } from "../../../src/netlink/errors.ts";

export type Facility = "ipvs" | "ipset" | "link" | "iptables" | "conntrack" | "sysctl" | "module";

export interface Operation {
  readonly facility: Facility;
  /** `real-server-create`, `write`; `observe` and the like for reads. */
  readonly action: string;
  /** `TCP 10.96.0.1:80 -> 10.244.1.5:8080`; may be empty. */
  readonly subject: string;
  /** Reads are neither logged nor counted, but can be made to fail. */
  readonly isRead?: boolean;
}

/** `ipvs real-server-create TCP 10.96.0.1:80 -> 10.244.1.5:8080` */
export function operationText(operation: Operation): string {
  return `${operation.facility} ${operation.action} ${operation.subject}`.trimEnd();
}

/** An error number (becomes a NetlinkError about the operation) or the error itself. */
export type Failure = number | Error;

/** Thrown by every call from the chosen operation on: as though the process had been killed there. */
export class FakeCrash extends Error {}

interface Trap {
  readonly matches: (operation: Operation) => boolean;
  readonly failure: Failure;
  timesLeft: number;
}

export class Operations {
  /** Changes that were carried out or tried, in order. */
  #log: Operation[] = [];
  /** Where in it each request begins. */
  #requestStarts: number[] = [];
  readonly #traps: Trap[] = [];
  readonly #lostRequests: ((operation: Operation) => boolean)[] = [];
  readonly #lostReplies: ((operation: Operation) => boolean)[] = [];
  /** Called after each change of the kernel's state: one of a list, or one table of a restore. */
  onChanged: (operation: Operation) => void = () => {};
  #crashCountdown = Number.POSITIVE_INFINITY;

  /** The changes so far, one line each. */
  texts(): readonly string[] {
    return this.#log.map(operationText);
  }

  /** The changes so far, as values. */
  get log(): readonly Operation[] {
    return this.#log;
  }

  /** The changes so far, those of one request in one list. */
  get requests(): readonly (readonly Operation[])[] {
    const starts = this.#requestStarts;
    return starts
      .map((start, index) => this.#log.slice(start, starts[index + 1]))
      .filter(({ length }) => length > 0);
  }

  /** Forgets the log; traps stay. */
  clear(): void {
    this.#log = [];
    this.#requestStarts = [];
  }

  /** Makes the n-th change from now on fail, counted from 1. */
  failNth(n: number, failure: Failure): void {
    let seen = 0;
    const matches = (operation: Operation): boolean => {
      if (operation.isRead === true) return false;
      seen += 1;
      return seen === n;
    };
    this.#traps.push({ matches, failure, timesLeft: 1 });
  }

  /** Makes changes and reads fail that `matches` picks, `times` in all; returns the end of it. */
  failWhere(
    matches: (operation: Operation) => boolean,
    failure: Failure,
    times: number = Number.POSITIVE_INFINITY,
  ): () => void {
    const trap: Trap = { matches, failure, timesLeft: times };
    this.#traps.push(trap);
    return () => {
      trap.timesLeft = 0;
    };
  }

  /** The next request with such a change is not executed, and its caller only learns ENOBUFS. */
  loseRequestWhere(matches: (operation: Operation) => boolean): void {
    this.#lostRequests.push(matches);
  }

  /** The next request with such a change is executed, but its caller only learns ENOBUFS. */
  loseReplyWhere(matches: (operation: Operation) => boolean): void {
    this.#lostReplies.push(matches);
  }

  /** The n-th change from now on (from 1) and every call after it throw {@link FakeCrash}. */
  crashAt(n: number): void {
    this.#crashCountdown = n;
  }

  /** The caller was killed, and does nothing any more. */
  get hasCrashed(): boolean {
    return this.#crashCountdown <= 0;
  }

  /** Lets calls through again; what the kernel holds is as it was at the crash. */
  revive(): void {
    this.#crashCountdown = Number.POSITIVE_INFINITY;
  }

  /** Runs one request that is one change. */
  change<T>(operation: Operation, work: () => T): T {
    this.#begin([operation]);
    const isReplyLost = takeMatching(this.#lostReplies, [operation]);
    const result = this.#perform(operation, work);
    if (isReplyLost) throw replyLost(operation);
    return result;
  }

  /** Runs a request that is a list of changes, each on its own. */
  changes<C>(
    list: readonly C[],
    operationOf: (change: C) => Operation,
    work: (change: C) => void,
  ): readonly FailedChange[] {
    const operations = list.map(operationOf);
    this.#begin(operations);
    const isReplyLost = takeMatching(this.#lostReplies, operations);
    const failed: FailedChange[] = [];
    for (const [index, change] of list.entries()) {
      const operation = operations[index];
      if (operation === undefined) continue;
      try {
        this.#perform(operation, () => work(change));
      } catch (error) {
        if (!(error instanceof Error) || error instanceof FakeCrash) throw error;
        failed.push({ index, error });
      }
    }
    const [first] = operations;
    if (isReplyLost && first !== undefined) throw replyLost(first);
    return failed;
  }

  /** Runs a request that changes nothing. */
  read<T>(facility: Facility, action: string, subject: string, work: () => T): T {
    if (this.#crashCountdown <= 0) throw new FakeCrash("The fake kernel's caller was killed");
    this.#spring({ facility, action, subject, isRead: true });
    return work();
  }

  #perform<T>(operation: Operation, work: () => T): T {
    this.#crashCountdown -= 1;
    if (this.#crashCountdown <= 0) throw new FakeCrash("The fake kernel's caller was killed");
    this.#log.push(operation);
    this.#spring(operation);
    const result = work();
    this.onChanged(operation);
    return result;
  }

  #spring(operation: Operation): void {
    for (const trap of this.#traps) {
      if (trap.timesLeft <= 0 || !trap.matches(operation)) continue;
      trap.timesLeft -= 1;
      throw failureError(operation, trap.failure);
    }
  }

  #begin(operations: readonly Operation[]): void {
    this.#requestStarts.push(this.#log.length);
    const [first] = operations;
    if (first !== undefined && takeMatching(this.#lostRequests, operations)) throw replyLost(first);
  }
}

function takeMatching(
  matchers: ((operation: Operation) => boolean)[],
  operations: readonly Operation[],
): boolean {
  const found = matchers.findIndex((matches) => operations.some(matches));
  if (found < 0) return false;
  matchers.splice(found, 1);
  return true;
}

/** The error that the kernel's clients would throw for this operation. */
export function failureError(operation: Operation, failure: Failure): Error {
  if (failure instanceof Error) return failure;
  const { action, subject } = operation;
  return new NetlinkError({ operation: actionWords(action), subject, errno: failure });
}

/** `create virtual server` of `virtual-server-create`, and of `create-virtual-server`. */
export function actionWords(action: string): string {
  return action.replace(/^(.+)-(create|update|remove|add)$/, "$2-$1").replaceAll("-", " ");
}

function replyLost(operation: Operation): Error {
  return failureError(operation, errno.ENOBUFS);
}
