/** The state file section that preserves the weights that endpoints answered. */
import type { WeightRecord } from "../weights/weight-answers.ts";
import { numbersIn, type StateFile } from "./state-file.ts";

/** Endpoints beyond that have an unknown weight after a restart. Keys are at most about 170 characters long. */
const maxWeights = 10_000;

export function weightRecordIn(state: StateFile): WeightRecord {
  return {
    recalled: numbersIn(state.content["answeredWeights"]),
    keep(weights) {
      state.keep({
        answeredWeights: () => {
          const entries = weights().slice(0, maxWeights);
          return entries.length === 0 ? undefined : Object.fromEntries(entries);
        },
      });
    },
  };
}
