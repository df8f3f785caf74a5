import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";

/** Removes what a run with the other setting of `kubeIpvs.virtualAddresses` bound. */
export async function tidyVirtualAddresses(
  { link }: Pick<Kernel, "link">,
  { virtualAddresses, isObserveOnly }: Pick<Config, "virtualAddresses" | "isObserveOnly">,
  log: Logger,
): Promise<void> {
  if (isObserveOnly) return;
  const count = await link.removeOtherForm();
  if (count > 0) log.info("Converted virtual addresses", { to: virtualAddresses, count });
}
