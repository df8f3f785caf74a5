/** Opens the kernel as the configuration requires. */
import type { Config } from "../../config/config.ts";
import { type OpenKernel, openKernel } from "../../kernel/open-kernel.ts";
import type { RunContext } from "../run.ts";

type KernelContext = Pick<RunContext, "clock" | "log">;

export function openNodeKernel(
  { mode, rules, virtualAddresses, portRangeMarks }: Config,
  context: KernelContext,
): Promise<OpenKernel> {
  return openKernel({
    ...{ ...context, virtualAddresses, portRangeMarks },
    rules: mode === "ipvs" ? rules : undefined,
  });
}

/** Clean-up removes both writers' rules, whichever one is configured. */
export function openKernelForCleanUp(config: Config, context: KernelContext): Promise<OpenKernel> {
  return openNodeKernel({ ...config, rules: "auto" }, context);
}
