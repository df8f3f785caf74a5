import { writeFileSync } from "node:fs";
import { type Clock, sleep } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";

const path = "/proc/self/oom_score_adj";
const retryMs = 100;

/** Sets how readily the kernel kills this process when memory is short. Retries once. A failure is harmless. */
export async function writeOomScore(
  score: number,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
  write: (path: string, text: string) => void = writeFileSync,
): Promise<void> {
  for (const isLast of [false, true]) {
    try {
      write(path, String(score));
      return;
    } catch (error) {
      if (isLast) log.verbose(2, "Cannot set OOM score adjustment", { score, err: error });
      else await sleep(clock, retryMs);
    }
  }
}
