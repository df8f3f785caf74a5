/** Reads the kernel state until it equals the recorded state or the timeout expires. */
import { pauseAfterCheck } from "../support/pause-after-check.ts";
import { compareStates, type Difference, type KernelState } from "./kernel-state.ts";
import { observeKernel } from "./observe.ts";
import type { Scenario } from "./scenario.ts";

/** Returns the differences found by the last read. Stops reading when there are none. */
export async function differencesWithin(
  deadlineMs: number,
  recorded: KernelState,
  healthPorts: readonly number[],
): Promise<readonly Difference[]> {
  const begin = performance.now();
  for (;;) {
    const checkBeganMs = performance.now();
    const differences = compareStates(recorded, await observeKernel(healthPorts));
    const isOver = performance.now() - begin > deadlineMs;
    if (differences.length === 0 || isOver) return differences;
    await pauseAfterCheck(checkBeganMs);
  }
}

/**
 * Reads once more after the program has exited, to detect changes after the last matching read. The program's health
 * checks no longer answer by then.
 */
export async function lookAfterEnd(
  steps: readonly (readonly Difference[])[],
  scenario: Scenario,
): Promise<readonly (readonly Difference[])[]> {
  const last = steps.at(-1);
  const { health: _, ...recorded } = scenario.steps.at(-1)?.recorded ?? {};
  if (last === undefined || last.length > 0) return steps;
  return steps.with(-1, compareStates(recorded, await observeKernel([])));
}
