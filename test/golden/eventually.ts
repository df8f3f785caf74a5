/** Looks until the kernel holds what was recorded, or the time is up. */
import { pauseAfterCheck } from "../support/pause-after-check.ts";
import { compareStates, type Difference, type KernelState } from "./kernel-state.ts";
import { observeKernel } from "./observe.ts";
import { pendingFiles } from "./pending.ts";
import type { Scenario } from "./scenario.ts";

/** What the last read of the kernel found, after a step. */
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
    const checkBeganMs = performance.now();
    const found = sortOut(compareStates(recorded, await observeKernel(healthPorts)));
    const isOver = performance.now() - begin > deadlineMs;
    if (found.differences.length === 0 || isOver) return found;
    await pauseAfterCheck(checkBeganMs);
  }
}

/**
 * Looks once more at what the last step left, when the program has ended: a change that came after the look
 * that matched would be seen. Its health checks answer no more.
 */
export async function lookAfterEnd(
  steps: readonly StepDifferences[],
  scenario: Scenario,
): Promise<readonly StepDifferences[]> {
  const last = steps.at(-1);
  const { health: _, ...recorded } = scenario.steps.at(-1)?.recorded ?? {};
  if (last === undefined || last.differences.length > 0) return steps;
  return steps.with(-1, sortOut(compareStates(recorded, await observeKernel([]))));
}

function sortOut(all: readonly Difference[]): StepDifferences {
  return {
    differences: all.filter(({ file }) => !pendingFiles.has(file)),
    pending: all.filter(({ file }) => pendingFiles.has(file)),
  };
}
