import type { World } from "./world.ts";

export type Form = "short" | "long";

/** Which time of how many it is. */
export interface Turn {
  readonly form: Form;
  readonly index: number;
}

/** One kind of fault: how it is done, and what must hold. */
export interface Row {
  /** As it stands in the document. */
  readonly name: string;
  /** How often it is tried in `make test` (0: only in the long form), and how often in `make nightly` and `make faults`. */
  readonly short: number;
  readonly long: number;
  /**
   * Does the fault and undoes it; the world changes meanwhile, so that there is something to repair. The result
   * is what was seen, for the log of the run. Throws where something that must hold does not.
   */
  readonly inject: (world: World, turn: Turn) => Promise<string>;
  /** Each turn has a program that has just started: its pauses after failures begin with the shortest. */
  readonly startsAnew?: true;
  /** Before the first turn and after the last one. */
  readonly before?: (world: World) => Promise<void>;
  readonly after?: (world: World) => Promise<void>;
  /** Why new connections of the clients may fail meanwhile; absent: none may. Those that stand never break. */
  readonly mayFail?: string;
  /** What the row changes beyond its network namespace, as in "sets the clock": it runs in the lab kernel only. */
  readonly machineWide?: string;
}

/** What came of a row. */
export interface RowResult {
  readonly name: string;
  /** Turns that came to their end. */
  readonly tried: number;
  /** Connections that stood, summed over the turns. */
  readonly long: number;
  readonly broken: number;
  /** Connections opened meanwhile. */
  readonly short: number;
  readonly failed: number;
  /** Milliseconds from the end of the fault until the kernel was as planned. */
  readonly repairMs: readonly number[];
  readonly mayFail?: string;
  /** What was seen, one for each turn. */
  readonly notes: readonly string[];
  /** Why the turn after those did not. */
  readonly failure?: string;
}
