import { setTimeout as delay } from "node:timers/promises";

const times = 5;

/**
 * The median growth of this process in bytes over five runs of `work`, after a first run. A leak grows in most runs,
 * but memory that the allocator keeps does not.
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

/** Resident bytes after a full garbage collection. */
async function residentBytes(): Promise<number> {
  for (let round = 0; round < 4; round += 1) {
    globalThis.gc?.();
    await delay(5);
  }
  return process.memoryUsage.rss();
}
