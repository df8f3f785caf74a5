import { setTimeout as delay } from "node:timers/promises";

const times = 5;

/**
 * The bytes by which this process grows while `work` is done, after a first time: the median of five. A leak grows most times;
 * what the allocator keeps for later, or has not given back yet, does not.
 */
export async function usualGrowth(work: () => Promise<void>): Promise<number> {
  await work();
  const grown: number[] = [];
  let before = await residentBytes();
  for (let time = 0; time < times; time += 1) {
    await work();
    const after = await residentBytes();
    grown.push(after - before);
    before = after;
  }
  return grown.toSorted((one, other) => one - other)[Math.floor(times / 2)] ?? 0;
}

/** After everything that can be collected is. */
async function residentBytes(): Promise<number> {
  for (let round = 0; round < 4; round += 1) {
    globalThis.gc?.();
    await delay(5);
  }
  return process.memoryUsage.rss();
}
