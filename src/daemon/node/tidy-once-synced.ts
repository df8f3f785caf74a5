import { background } from "../../base/background.ts";
import type { Logger } from "../../base/log.ts";

/**
 * Runs `tidy`, which removes what earlier runs and other modes of kube-proxy left, once a first sync worked: in between,
 * traffic would be without both. The result is to be called after each sync that worked.
 */
export function tidyOnceSynced(log: Logger, tidy: () => Promise<void>): () => void {
  let hasBegun = false;
  return () => {
    if (hasBegun) return;
    hasBegun = true;
    background(tidy(), log, "removal of what earlier runs left");
  };
}
