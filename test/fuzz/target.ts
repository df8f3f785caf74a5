/** What is fuzzed, and how an input is judged. */
import type fc from "fast-check";

/**
 * One way into the program for bytes of others. `run` ends normally where the input was taken or refused as it
 * should be, and throws where something was found.
 */
export interface FuzzTarget<T = unknown> {
  readonly name: string;
  /** Decoders are cheap: the long form gives them ten million inputs each. */
  readonly isDecoder: boolean;
  /** Of inputs that are a node's history; absent: as many as the form of the run has. */
  readonly runs?: { readonly short: number; readonly long: number };
  /** Kept inputs: recorded from the real thing, or found once. They are tried first, as they are. */
  readonly kept: readonly T[];
  /** Kept inputs, changed; and others out of thin air. */
  readonly inputs: fc.Arbitrary<T>;
  /** Says whether the input was taken or refused; the sum is printed, so that neither is all. */
  run(input: T): Verdict | Promise<Verdict>;
  stop?(): Promise<void>;
  /** What was measured, for people; asked after the stop. */
  figures?(): string;
}

export type Verdict = "taken" | "refused";

/** Runs `read`; an error for which `isExpected` holds is a refusal, any other is a find. */
export function verdictOf(read: () => unknown, isExpected: (error: unknown) => boolean): Verdict {
  try {
    read();
    return "taken";
  } catch (error) {
    if (isExpected(error)) return "refused";
    throw error;
  }
}
