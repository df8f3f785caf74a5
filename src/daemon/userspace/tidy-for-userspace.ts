/** What modes ipvs and iptables left on a node that goes on in mode userspace. */
import { errorText } from "../../base/error-text.ts";
import type { Config } from "../../config/config.ts";
import type { UsableIptables } from "../../kernel/open-iptables.ts";
import { planEmptyRules } from "../../plan/rules.ts";
import { tidyOtherModes } from "../node/other-modes.ts";
import { type TidyIpvsParts, tidyIpvs } from "../node/tidy-ipvs.ts";

/**
 * To be called when the rules of this mode stand. Never rejects; false asks for a retry. What a process without rights may
 * not remove stays, and is not retried.
 */
export async function tidyForUserspace(
  { openKernel }: Pick<UsableIptables, "openKernel">,
  config: Config,
  parts: Pick<TidyIpvsParts, "clock" | "log" | "stop" | "ranIpvs">,
): Promise<boolean> {
  const { log } = parts;
  try {
    const kernel = await openKernel();
    try {
      // Chains of mode iptables lead to chains of both modes, so they go first.
      const isTidy = await tidyOtherModes(kernel, config, { log });
      const isIpvsGone = await tidyIpvs(kernel, config, {
        ...parts,
        rulesOf: planEmptyRules,
        mayHaveRules: kernel.iptablesMode !== undefined,
      });
      return isTidy && isIpvsGone;
    } finally {
      kernel.close();
    }
  } catch (error) {
    log.warn("Cannot remove leftovers of other modes", { err: errorText(error) });
    return true;
  }
}
