import type { FaultyNode } from "./faulty-node.ts";

export type Form = "short" | "long";

/** This try's number, and the total number of tries. */
export interface Turn {
  readonly form: Form;
  readonly index: number;
}

/** One kind of fault: how it is injected, and what must be true. */
export interface Row {
  /** The name in the report. */
  readonly name: string;
  /** Number of tries in `make test` (0 if only the long form has the row), and in `make nightly` and `make faults`. */
  readonly short: number;
  readonly long: number;
  /**
   * Injects the fault and removes it while objects change, so that there is something to repair. Returns an
   * observation for the run's log. Throws if a requirement is violated.
   */
  readonly inject: (node: FaultyNode, turn: Turn) => Promise<string>;
  /** Each try uses a newly started program, whose retry delays start at the shortest one. */
  readonly startsAnew?: true;
  /** Runs before the first try and after the last one. */
  readonly before?: (node: FaultyNode) => Promise<void>;
  readonly after?: (node: FaultyNode) => Promise<void>;
  /**
   * Why new connections of the clients may fail during the fault. If absent, none may fail. Open connections must never
   * break.
   */
  readonly mayFail?: string;
  /**
   * What the row changes outside its network namespace, such as "sets the clock". Such a row runs only in the lab
   * kernel.
   */
  readonly machineWide?: string;
}

/** The result of a row. */
export interface RowResult {
  readonly name: string;
  /** Number of completed tries. */
  readonly tried: number;
  /** Number of open connections, summed over the tries. */
  readonly long: number;
  readonly broken: number;
  /** Number of connections opened during the tries. */
  readonly short: number;
  readonly failed: number;
  /** Milliseconds from the end of the fault until the kernel state equaled the plan. */
  readonly repairMs: readonly number[];
  readonly mayFail?: string;
  /** Observations, one for each try. */
  readonly notes: readonly string[];
  /** Why the last try failed. */
  readonly failure?: string;
}
