import { setTimeout as pause } from "node:timers/promises";

/**
 * Waits before the kernel is checked again: twice as long as the last check took. A check starts programs, which is what
 * costs in the lab, and takes the processor from the program that is waited for.
 */
export function pauseAfterCheck(checkBeganMs: number, leastMs: number = 100): Promise<void> {
  return pause(Math.max(leastMs, 2 * (performance.now() - checkBeganMs)));
}
