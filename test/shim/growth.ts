import { setTimeout as delay } from "node:timers/promises";

const times = 3;

/**
 * The bytes by which this process grows while `work` is done, once more after a first time: the least of three. A leak grows each
 * time; what the allocator keeps for later, or has not given back yet, does not.
 */
export async function leastGrowth(work: () => Promise<void>): Promise<number> {
  await work();
  let least = Number.POSITIVE_INFINITY;
  let before = await residentBytes();
  for (let time = 0; time < times; time += 1) {
    await work();
    const after = await residentBytes();
    least = Math.min(least, after - before);
    before = after;
  }
  return least;
}

/** After everything that can be collected is. */
async function residentBytes(): Promise<number> {
  for (let round = 0; round < 4; round += 1) {
    globalThis.gc?.();
    await delay(5);
  }
  return process.memoryUsage.rss();
}
