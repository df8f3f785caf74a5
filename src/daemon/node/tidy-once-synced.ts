import { background } from "../../base/background.ts";
import type { Logger } from "../../base/log.ts";

export interface TidyParts {
  readonly log: Logger;
  /** Removes what earlier runs and other modes left. */
  readonly tidy: () => Promise<void>;
  /** Resolves when all that was listed is in the kernel. */
  readonly settled: () => Promise<void>;
}

/**
 * Removes what earlier runs and other modes of kube-proxy left, once a first sync worked: in between, traffic would be
 * without both. The result is to be called after each sync that worked.
 */
export function tidyOnceSynced(parts: TidyParts): () => void {
  let hasBegun = false;
  return () => {
    if (hasBegun) return;
    hasBegun = true;
    background(run(parts), parts.log, "removal of what earlier runs left");
  };
}

async function run({ settled, tidy }: TidyParts): Promise<void> {
  await settled();
  await tidy();
}
