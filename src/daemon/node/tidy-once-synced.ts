import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";

/** Pause before it is retried, at a sync that works. */
const retryMs = 60_000;

/**
 * Runs `tidy`, which removes what earlier runs and other modes of kube-proxy left, once a first sync worked: in between,
 * traffic would be without both. It says whether nothing is left that it could not remove; otherwise it is run again. The
 * result is to be called after each sync that worked.
 */
export function tidyOnceSynced(
  { clock, log }: { readonly clock: Pick<Clock, "monotonicMs">; readonly log: Logger },
  tidy: () => Promise<boolean>,
): () => void {
  let dueMs = Number.NEGATIVE_INFINITY;
  const run = async (): Promise<void> => {
    if (!(await tidy())) dueMs = clock.monotonicMs() + retryMs;
  };
  return () => {
    if (clock.monotonicMs() < dueMs) return;
    dueMs = Number.POSITIVE_INFINITY;
    background(run(), log, "removal of what earlier runs left");
  };
}
