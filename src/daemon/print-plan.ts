/** Implements `kube-ipvs plan`: computes what a start or a clean-up would change on this node. Writes nothing. */
import { apiVersion } from "../answer/answers.ts";
import { type Plan, planBeyond } from "../answer/plan.ts";
import type { AppliedFile } from "../api/manifest/applied-file.ts";
import type { Config } from "../config/config.ts";
import { withoutFlowChecks } from "../reconcile/change-plan.ts";
import { planObject } from "../reconcile/plan-object.ts";
import { planCleanUp } from "./clean-up.ts";
import { openKernelForCleanUp } from "./node/open-node-kernel.ts";
import { findOtherProxy } from "./node/other-proxy.ts";
import { type ObserveOnceContext, observeOnce } from "./observe-once.ts";
import type { RunContext } from "./run.ts";
import { planUserspaceStart } from "./userspace/print-userspace-plan.ts";

/** Returns what `--cleanup` would remove. Rejects if the kernel cannot be read. */
export async function planNodeCleanUp(
  config: Config,
  { clock, log }: Pick<RunContext, "clock" | "log">,
): Promise<Plan> {
  const kernel = await openKernelForCleanUp(config, { clock, log });
  try {
    return await planCleanUp(kernel, config, { clock, proxy: await findOtherProxy() });
  } finally {
    kernel.close();
  }
}

/** Returns the plan for a first sync. Rejects if it cannot be determined. */
export async function planSync(config: Config, parts: ObserveOnceContext): Promise<Plan> {
  if (config.mode === "userspace") return await planUserspaceStart(config, parts);
  return await observeOnce(config, parts, ({ report, view }) => ({
    ...{ apiVersion, kind: "Plan" },
    ...planObject(withoutFlowChecks(report.plan)),
    ...(view.iptables === undefined ? {} : { iptablesBackend: view.iptables.choice.backend }),
  }));
}

/** Returns what applying a file would change, apart from changes that are pending even without it. */
export async function planApplied(
  config: Config,
  parts: ObserveOnceContext,
  applied: AppliedFile,
): Promise<Plan> {
  const pending = await planSync(config, parts);
  return planBeyond(pending, await planSync(config, { ...parts, applied }));
}
