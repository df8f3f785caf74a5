/** The requests to the fake kernel in order, and injected failures. */
import { errno } from "../../../src/base/errno.ts";
import type { FailedChange } from "../../../src/kernel/kernel.ts";
import { NetlinkError } from "../../../src/netlink/errors.ts";

export type Facility = "ipvs" | "ipset" | "link" | "iptables" | "conntrack" | "sysctl" | "module";

export interface Operation {
  readonly facility: Facility;
  /** For example `real-server-create` or `write`; for reads, `observe` and others. */
  readonly action: string;
  /** `TCP 10.96.0.1:80 -> 10.244.1.5:8080`; may be empty. */
  readonly subject: string;
  /** Reads are neither logged nor counted, but can fail. */
  readonly isRead?: boolean;
}

/** `ipvs real-server-create TCP 10.96.0.1:80 -> 10.244.1.5:8080` */
export function operationText(operation: Operation): string {
  return `${operation.facility} ${operation.action} ${operation.subject}`.trimEnd();
}

/** An error number (becomes a NetlinkError about the operation) or the error itself. */
export type Failure = number | Error;

/** Every call from the selected operation on throws this, as if the process had been killed at that point. */
export class FakeCrash extends Error {}

interface Trap {
  readonly matches: (operation: Operation) => boolean;
  readonly failure: Failure;
  timesLeft: number;
}

export class Operations {
  /** Executed and attempted changes, in order. */
  #log: Operation[] = [];
  /** Position of each request in the log. */
  #requestStarts: number[] = [];
  readonly #traps: Trap[] = [];
  readonly #lostRequests: ((operation: Operation) => boolean)[] = [];
  readonly #lostReplies: ((operation: Operation) => boolean)[] = [];
  /** Called after each change to the kernel's state: one change in a list, or one table in a restore. */
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

  /** The changes so far, with one list per request. */
  get requests(): readonly (readonly Operation[])[] {
    const starts = this.#requestStarts;
    return starts
      .map((start, index) => this.#log.slice(start, starts[index + 1]))
      .filter(({ length }) => length > 0);
  }

  /** Clears the log. Injected failures remain. */
  clear(): void {
    this.#log = [];
    this.#requestStarts = [];
  }

  /** Makes the n-th subsequent change fail, counting from 1. */
  failNth(n: number, failure: Failure): void {
    let seen = 0;
    const matches = (operation: Operation): boolean => {
      if (operation.isRead === true) return false;
      seen += 1;
      return seen === n;
    };
    this.#traps.push({ matches, failure, timesLeft: 1 });
  }

  /** Makes selected changes and reads fail, `times` in total. Returns a function that stops this. */
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

  /** Drops the next request with a matching change without executing it. Its caller gets ENOBUFS. */
  loseRequestWhere(matches: (operation: Operation) => boolean): void {
    this.#lostRequests.push(matches);
  }

  /** Executes the next request with a matching change, but its caller gets ENOBUFS. */
  loseReplyWhere(matches: (operation: Operation) => boolean): void {
    this.#lostReplies.push(matches);
  }

  /** Makes the n-th subsequent change, counting from 1, and every call after it throw {@link FakeCrash}. */
  crashAt(n: number): void {
    this.#crashCountdown = n;
  }

  /** Whether the caller was killed. */
  get hasCrashed(): boolean {
    return this.#crashCountdown <= 0;
  }

  /** Allows calls again. The kernel state is unchanged since the crash. */
  revive(): void {
    this.#crashCountdown = Number.POSITIVE_INFINITY;
  }

  /** Executes a request with one change. */
  change<T>(operation: Operation, work: () => T): T {
    this.#begin([operation]);
    const isReplyLost = takeMatching(this.#lostReplies, [operation]);
    const result = this.#perform(operation, work);
    if (isReplyLost) throw replyLost(operation);
    return result;
  }

  /** Executes a request with a list of independent changes. */
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

  /** Executes a read-only request. */
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

/** `create virtual server` for `virtual-server-create` and for `create-virtual-server`. */
export function actionWords(action: string): string {
  return action.replace(/^(.+)-(create|update|remove|add)$/, "$2-$1").replaceAll("-", " ");
}

function replyLost(operation: Operation): Error {
  return failureError(operation, errno.ENOBUFS);
}
