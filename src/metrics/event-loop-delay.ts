import type { Clock } from "../base/clock.ts";
import type { Metrics } from "./prometheus-metrics.ts";

const intervalMs = 1_000;

/**
 * Measures how late timers fire, that is, how long other work blocks the event loop. Returns a function that stops it.
 */
export function measureEventLoopDelay(
  clock: Clock,
  metrics: Pick<Metrics, "eventLoopDelay">,
): () => void {
  let cancel = (): void => {};
  const arm = (): void => {
    const dueMs = clock.monotonicMs() + intervalMs;
    cancel = clock.after(intervalMs, () => {
      metrics.eventLoopDelay.observe(Math.max(0, clock.monotonicMs() - dueMs) / 1000);
      arm();
    });
  };
  arm();
  return () => cancel();
}
