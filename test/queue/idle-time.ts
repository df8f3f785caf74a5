/** Measures whether a processor could do more work. */
import { cpus } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { allowedCpu } from "../lab/kernel-needs.ts";

const sampleMs = 2_000;
const enoughShare = 0.5;

/**
 * Whether the processor with this index was idle for half of the time. Lanes with different numbers of samples do not
 * start jobs at the same moment.
 */
export async function hasIdleTime(index: number, samples: number): Promise<boolean> {
  const before = timesOf(index);
  await pause(samples * sampleMs);
  const after = timesOf(index);
  return after.idle - before.idle >= enoughShare * (after.total - before.total);
}

function timesOf(index: number): { readonly idle: number; readonly total: number } {
  const times = cpus()[allowedCpu(index)]?.times;
  const list = Object.values(times ?? {});
  return { idle: times?.idle ?? 0, total: list.reduce((sum, one) => sum + one, 0) };
}
