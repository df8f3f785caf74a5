import type { ResourceKind } from "../../api/source.ts";
import { background } from "../../base/background.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { tidyOtherModes } from "./other-modes.ts";
import { tidyUnusedBackend } from "./unused-backend.ts";

export interface TidyParts {
  readonly kernel: Kernel;
  readonly config: Config;
  readonly log: Logger;
  /** Resolves when all that was listed is in the kernel. */
  readonly settled: () => Promise<void>;
}

/**
 * Removes what earlier runs and other modes of kube-proxy left, once the first sync ended: in between, traffic would be
 * without both. What mode iptables left goes first, since it leads to chains of ours in the unused backend.
 */
export function tidyOnceSynced(parts: TidyParts): (kind: ResourceKind) => void {
  const waitsFor = new Set<ResourceKind>(["services", "endpointslices"]);
  let hasBegun = false;
  return (kind) => {
    waitsFor.delete(kind);
    if (hasBegun || waitsFor.size > 0) return;
    hasBegun = true;
    background(tidy(parts), parts.log, "removal of what earlier runs left");
  };
}

async function tidy({ settled, kernel, config, log }: TidyParts): Promise<void> {
  await settled();
  await tidyOtherModes(kernel, config, log);
  await tidyUnusedBackend(kernel, config, log);
  await tidyVirtualAddresses(kernel, config, log);
}

/** What a run with the other setting bound. */
async function tidyVirtualAddresses(
  { link }: Kernel,
  { virtualAddresses, isObserveOnly }: Config,
  log: Logger,
): Promise<void> {
  if (isObserveOnly) return;
  const count = await link.removeOtherForm();
  if (count > 0) log.info("Converted virtual addresses", { to: virtualAddresses, count });
}
