/** The type of a fuzz target, and how inputs are judged. */
import type fc from "fast-check";

/**
 * An input path for untrusted bytes. `run` returns if the input was accepted or rejected as expected, and throws for a
 * finding.
 */
export interface FuzzTarget<T = unknown> {
  readonly name: string;
  /** Whether the target is a decoder. Decoders are fast, so the long form uses ten million inputs for each. */
  readonly isDecoder: boolean;
  /** Number of inputs that form a node's history. If absent, the number depends on the form of the run. */
  readonly runs?: { readonly short: number; readonly long: number };
  /** Recorded inputs and earlier findings, which are tried first without changes. */
  readonly kept: readonly T[];
  /** Mutations of saved inputs, and random inputs. */
  readonly inputs: fc.Arbitrary<T>;
  /**
   * Returns whether the input was accepted or rejected. The totals are printed to show whether both occur.
   */
  run(input: T): Verdict | Promise<Verdict>;
  stop?(): Promise<void>;
  /** Returns measurements as text after the stop. */
  figures?(): string;
}

export type Verdict = "taken" | "refused";

/** Runs `read`. An error for which `isExpected` is true is a rejection, and any other error is a finding. */
export function verdictOf(read: () => unknown, isExpected: (error: unknown) => boolean): Verdict {
  try {
    read();
    return "taken";
  } catch (error) {
    if (isExpected(error)) return "refused";
    throw error;
  }
}
