import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { portalRules } from "../../userspace/portal-rules.ts";
import { mayBeInUse } from "./other-modes.ts";
import { removeRules, usableFamilies } from "./remove-rules.ts";

/**
 * Removes the rules of mode userspace. To be called before the first sync: they lead to listeners that ended with their
 * process, and whatever they catch is refused. Never rejects.
 */
export async function tidyPortals(kernel: Kernel, config: Config, log: Logger): Promise<void> {
  if (kernel.hasPortals !== true || config.isObserveOnly || mayBeInUse(config)) return;
  try {
    const kept = await removePortals(kernel);
    log.info("Removed leftovers of userspace mode");
    const reason = "referenced-by-third-party";
    for (const subject of kept) log.info("Kept leftovers of userspace mode", { subject, reason });
  } catch (error) {
    const advice = "Run on this node: kube-ipvs --cleanup";
    log.error("Cannot remove leftovers of userspace mode, Services may be refused", {
      err: errorText(error),
      advice,
    });
  }
}

/** Of both families. Gives chains that stay, since rules of others lead to them. Rejects where the kernel refuses. */
export async function removePortals({
  iptables,
}: Pick<Kernel, "iptables">): Promise<readonly string[]> {
  const kept: string[] = [];
  for (const family of await usableFamilies(iptables)) {
    const removal = await removeRules(iptables, family, portalRules(family, []));
    kept.push(...removal.kept.map(({ name }) => `${family} ${name}`));
  }
  return kept;
}
