import { setTimeout as pause } from "node:timers/promises";

/**
 * Waits before the next kernel check, for twice the duration of the last one. Checks start programs, which are expensive
 * in the lab and slow down the program under test.
 */
export function pauseAfterCheck(checkBeganMs: number, leastMs: number = 100): Promise<void> {
  return pause(Math.max(leastMs, 2 * (performance.now() - checkBeganMs)));
}
