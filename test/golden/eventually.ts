/** Looks until the kernel holds what was recorded, or the time is up. */
import { setTimeout as pause } from "node:timers/promises";
import { compareStates, type Difference, type KernelState } from "./kernel-state.ts";
import { observeKernel } from "./observe.ts";
import { pendingFiles } from "./pending.ts";

/** What the last look at the kernel found, after a step. */
export interface StepDifferences {
  readonly differences: readonly Difference[];
  /** Differences in the files of pending.ts: nobody waits for them, and they fail nothing. */
  readonly pending: readonly Difference[];
}

/** Ends as soon as one look finds no difference (but pending ones). */
export async function differencesWithin(
  deadlineMs: number,
  recorded: KernelState,
  healthPorts: readonly number[],
): Promise<StepDifferences> {
  const begin = performance.now();
  for (;;) {
    const all = compareStates(recorded, await observeKernel(healthPorts));
    const differences = all.filter(({ file }) => !pendingFiles.has(file));
    const pending = all.filter(({ file }) => pendingFiles.has(file));
    const isOver = performance.now() - begin > deadlineMs;
    if (differences.length === 0 || isOver) return { differences, pending };
    await pause(100);
  }
}
