/** A fault's effect on the response to a request. */
export type FaultEffect =
  /** Responds with this status and a Status object. */
  | { readonly effect: "status"; readonly code: number; readonly retryAfterSeconds?: number }
  /** Cuts the connection before any response. */
  | { readonly effect: "reset" }
  /** Never responds. */
  | { readonly effect: "hang" }
  /** Sends headers and `afterBytes` of the body, then nothing more, like a half-open connection. */
  | { readonly effect: "stall"; readonly afterBytes?: number }
  /** Sends `afterBytes` of the body and cuts the connection. */
  | { readonly effect: "cut"; readonly afterBytes: number }
  /** Sends `afterBytes` of the body and ends it as if it were complete. */
  | { readonly effect: "truncate"; readonly afterBytes: number }
  /** Sends this text first. Then, a watch continues and a list ends. */
  | { readonly effect: "garbage"; readonly text: string }
  /** Sends the body in pieces of `chunkBytes`, `delayMs` apart. */
  | { readonly effect: "slow"; readonly chunkBytes: number; readonly delayMs: number };

/** A fault and the requests that it affects. */
export type Fault = FaultEffect & {
  readonly on: "list" | "watch" | "write" | "any";
  /** Part of the path, such as `services`. If absent, the fault affects every resource. */
  readonly path?: string;
  /** Number of unaffected requests before the fault. Defaults to none. */
  readonly skip?: number;
  /** Number of affected requests. Defaults to one. */
  readonly times?: number;
};

/** The pending faults, in order. */
export class FaultQueue {
  #faults: { readonly fault: Fault; skip: number; left: number }[] = [];

  /** Whether every fault has affected all its requests. */
  get isEmpty(): boolean {
    return this.#faults.length === 0;
  }

  /** Number of requests that are still to be affected. */
  get left(): number {
    return this.#faults.reduce((total, { left }) => total + left, 0);
  }

  add(fault: Fault): void {
    this.#faults.push({ fault, skip: fault.skip ?? 0, left: fault.times ?? 1 });
  }

  clear(): void {
    this.#faults = [];
  }

  /** Returns the fault for a request and counts it as used. `undefined` if the request is not affected. */
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
