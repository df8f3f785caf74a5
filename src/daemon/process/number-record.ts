/** State file sections that preserve a number for each key. */
import { type KeptState, numbersIn } from "./state-file.ts";

/** Numbers for the next run. */
export interface NumberRecord {
  /** The numbers that an earlier run recorded. */
  readonly recalled: ReadonlyMap<string, number>;
  /** Replaces everything recorded before. Calls `read` later, before the record is written. Never throws. */
  keep(read: () => readonly (readonly [string, number])[]): void;
}

/**
 * Maximum number of keys, which limits the size of the file. Further keys are lost in a restart. A key has at most
 * about 170 characters.
 */
const maxNumbers = 10_000;

/** `answeredWeights`: each endpoint's last answer. `ejections`: each endpoint's number of consecutive ejections. */
export function numberRecordIn(
  state: Pick<KeptState, "content" | "keep">,
  section: "answeredWeights" | "ejections",
): NumberRecord {
  return {
    recalled: numbersIn(state.content[section]),
    keep(read) {
      const numbers = (): unknown => {
        const entries = read().slice(0, maxNumbers);
        return entries.length === 0 ? undefined : Object.fromEntries(entries);
      };
      state.keep({ [section]: numbers });
    },
  };
}
