/** Opens the kernel as the configuration requires. */
import type { Config } from "../../config/config.ts";
import { type OpenKernel, openKernel } from "../../kernel/open-kernel.ts";
import { marksIn } from "../process/mode-record.ts";
import { readState } from "../process/state-file.ts";
import type { RunContext } from "../run.ts";

type KernelContext = Pick<RunContext, "clock" | "log">;

export function openNodeKernel(config: Config, context: KernelContext): Promise<OpenKernel> {
  const { mode, rules, virtualAddresses } = config;
  return openKernel({
    ...{ ...context, virtualAddresses, portRangeMarks: ownMarks(config) },
    rules: mode === "ipvs" ? rules : undefined,
  });
}

/** Clean-up removes rules from both iptables and nf_tables, whichever of them is configured. */
export function openKernelForCleanUp(config: Config, context: KernelContext): Promise<OpenKernel> {
  return openNodeKernel({ ...config, rules: "auto" }, context);
}

/** The configured mask of firewall marks, and the masks of earlier runs, whose virtual servers must be removed. */
export function ownMarks({
  stateFile,
  portRangeMarks,
}: Pick<Config, "stateFile" | "portRangeMarks">): readonly number[] {
  const earlier = marksIn(readState(stateFile));
  return portRangeMarks === undefined ? earlier : [...earlier, portRangeMarks];
}
