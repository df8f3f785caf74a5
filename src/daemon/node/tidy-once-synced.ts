import type { ResourceKind } from "../../api/source.ts";
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
 * Removes what earlier runs and other modes of kube-proxy left, once the first sync ended: in between, traffic would be
 * without both.
 */
export function tidyOnceSynced(parts: TidyParts): (kind: ResourceKind) => void {
  const waitsFor = new Set<ResourceKind>(["services", "endpointslices"]);
  let hasBegun = false;
  return (kind) => {
    waitsFor.delete(kind);
    if (hasBegun || waitsFor.size > 0) return;
    hasBegun = true;
    background(run(parts), parts.log, "removal of what earlier runs left");
  };
}

async function run({ settled, tidy }: TidyParts): Promise<void> {
  await settled();
  await tidy();
}
