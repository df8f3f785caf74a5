import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { Portals } from "../../userspace/portals.ts";
import { usableFamilies } from "./iptables-families.ts";
import { mayBeInUse } from "./other-modes.ts";

/**
 * Removes the rules of mode userspace. To be called before the first sync: they lead to listeners that ended with their
 * process, and whatever they catch is refused. Never rejects.
 */
export async function tidyPortals(kernel: Kernel, config: Config, log: Logger): Promise<void> {
  if (kernel.hasPortals !== true || config.isObserveOnly || mayBeInUse(config)) return;
  try {
    await removePortals(kernel);
    log.info("Removed what mode userspace left");
  } catch (error) {
    const advice = "Run on this node: kube-ipvs --cleanup";
    log.error("Cannot remove what mode userspace left, Services may be refused", {
      err: errorText(error),
      advice,
    });
  }
}

/** Of both families. Rejects where some are left. */
export async function removePortals({ iptables }: Pick<Kernel, "iptables">): Promise<void> {
  await new Portals(iptables, await usableFamilies(iptables)).remove();
}
