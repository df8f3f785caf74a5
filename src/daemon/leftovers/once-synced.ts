import { background } from "../../base/background.ts";
import { type Clock, sleep } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";

const retryMs = 60_000;

/**
 * Returns a function to call after each successful sync. The first call runs `remove`, which removes leftovers. If
 * leftovers were removed before the first sync, traffic would have neither the old rules nor the new ones. If something
 * could not be removed, `remove` resolves with false or rejects, and runs again each minute until the program stops. If
 * stopping the program interrupts `remove`, the resulting failure is not logged.
 */
export function onceSynced(
  { clock, log, stop }: { readonly clock: Clock; readonly log: Logger; readonly stop: AbortSignal },
  remove: () => Promise<boolean>,
): () => void {
  let hasBegun = false;
  const attempt = async (): Promise<boolean> => {
    try {
      return await remove();
    } catch (error) {
      if (!stop.aborted) log.error("Cannot remove leftovers, retrying", { err: error });
      return false;
    }
  };
  const run = async (): Promise<void> => {
    while (!(await attempt()) && !stop.aborted) await sleep(clock, retryMs, stop);
  };
  return () => {
    if (hasBegun) return;
    hasBegun = true;
    background(run(), log, "removal of leftovers");
  };
}
