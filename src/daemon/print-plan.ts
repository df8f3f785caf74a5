/** `kube-ipvs plan`: what a start would change on this node, by the daemon's own planning. Nothing is written. */
import { answerText } from "../base/structured-text.ts";
import type { Config } from "../config/config.ts";
import { withoutFlowChecks } from "../reconcile/change-plan.ts";
import { planObject } from "../reconcile/render/plan-json.ts";
import { planText } from "../reconcile/render/plan-text.ts";
import { observeOnce } from "./observe-once.ts";
import type { CommandParts } from "./run.ts";
import { printUserspacePlan } from "./userspace/print-userspace-plan.ts";

/** Prints the plan of a first sync. Resolves with whether it has changes; rejects where it cannot be worked out. */
export async function printPlan(
  config: Config,
  parts: Pick<CommandParts, "clock" | "log" | "print">,
  format: string | undefined,
): Promise<boolean> {
  if (config.mode === "userspace") return await printUserspacePlan(config, parts, format);
  return await observeOnce(config, parts, ({ report }) => {
    const plan = withoutFlowChecks(report.plan);
    parts.print(answerText(format, planObject(plan), () => planText(plan)).trimEnd());
    return plan.changes.length > 0;
  });
}
