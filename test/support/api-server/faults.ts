/** What a fault does to the answer of a request. */
export type FaultEffect =
  /** Answers with this status and a Status object. */
  | { readonly effect: "status"; readonly code: number; readonly retryAfterSeconds?: number }
  /** Cuts the connection before anything is answered. */
  | { readonly effect: "reset" }
  /** Never answers. */
  | { readonly effect: "hang" }
  /** Sends headers, and `afterBytes` of the body, then nothing more: a half-open connection. */
  | { readonly effect: "stall"; readonly afterBytes?: number }
  /** Sends `afterBytes` of the body and cuts the connection. */
  | { readonly effect: "cut"; readonly afterBytes: number }
  /** Sends `afterBytes` of the body and ends it as if it were complete. */
  | { readonly effect: "truncate"; readonly afterBytes: number }
  /** Sends this text first; a watch then goes on, a list ends. */
  | { readonly effect: "garbage"; readonly text: string }
  /** Sends the body in pieces of `chunkBytes` with `delayMs` between them. */
  | { readonly effect: "slow"; readonly chunkBytes: number; readonly delayMs: number };

/** A fault and the requests that it hits. */
export type Fault = FaultEffect & {
  readonly on: "list" | "watch" | "write" | "any";
  /** Part of the path, such as `services`; absent: every resource. */
  readonly path?: string;
  /** How many requests it lets pass first; absent: none. */
  readonly skip?: number;
  /** How many requests it hits; absent: one. */
  readonly times?: number;
};

/** The faults that are still to happen, first come, first served. */
export class FaultQueue {
  #faults: { readonly fault: Fault; skip: number; left: number }[] = [];

  /** True when every fault has happened as often as it should. */
  get isEmpty(): boolean {
    return this.#faults.length === 0;
  }

  /** How many requests are still to be hit. */
  get left(): number {
    return this.#faults.reduce((total, { left }) => total + left, 0);
  }

  add(fault: Fault): void {
    this.#faults.push({ fault, skip: fault.skip ?? 0, left: fault.times ?? 1 });
  }

  clear(): void {
    this.#faults = [];
  }

  /** The fault for a request, counted as used; `undefined` for an undisturbed one. */
  take(request: {
    readonly verb: "list" | "watch" | "write";
    readonly path: string;
  }): Fault | undefined {
    const entry = this.#faults.find(
      ({ fault }) =>
        (fault.on === "any" || fault.on === request.verb) &&
        (fault.path === undefined || request.path.includes(fault.path)),
    );
    if (entry === undefined) return undefined;
    if (entry.skip > 0) {
      entry.skip -= 1;
      return undefined;
    }
    entry.left -= 1;
    if (entry.left <= 0) this.#faults = this.#faults.filter((other) => other !== entry);
    return entry.fault;
  }
}
