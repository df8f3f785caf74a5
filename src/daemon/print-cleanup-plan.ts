/** `kube-ipvs plan --cleanup`: what `--cleanup` would remove, by its own planning. Nothing is written. */
import { existsSync } from "node:fs";
import { type PlannedChanges, plannedChanges } from "../answer/plan.ts";
import { errorText } from "../base/error-text.ts";
import type { Config } from "../config/config.ts";
import { observeOnly } from "../kernel/observe-only.ts";
import { openKernel } from "../kernel/open-kernel.ts";
import { type ChangePlan, emptyPlan } from "../reconcile/change-plan.ts";
import { planObject } from "../reconcile/render/plan-json.ts";
import { planText } from "../reconcile/render/plan-text.ts";
import { type CleanUpPlan, keptLines, planNodeCleanUp, recordPaths } from "./clean-up.ts";
import { findOtherProxy } from "./node/other-proxy.ts";
import type { RunContext } from "./run.ts";

/** Rejects if the kernel cannot be read. */
export async function planCleanUp(
  config: Config,
  { clock, log }: Pick<RunContext, "clock" | "log">,
): Promise<PlannedChanges> {
  const kernel = await openKernel({ clock, log, environment: process.env });
  try {
    const proxy = await findOtherProxy();
    const unchanged = { ...kernel, modules: observeOnly(kernel).modules };
    const planned = await planNodeCleanUp(unchanged, config, { clock, proxy });
    const [failure] = failuresOf(planned);
    if (failure !== undefined) {
      const message = `Cannot plan the clean-up: ${failure.subject}: ${errorText(failure.error)}`;
      throw new Error(message, { cause: failure.error });
    }
    const paths = [...recordPaths(config), config.operatorSocketPath];
    return changesOf(planned, paths.filter(existsSync));
  } finally {
    kernel.close();
  }
}

/** Pure. */
export function changesOf(planned: CleanUpPlan, files: readonly string[]): PlannedChanges {
  const { removal, nftTables } = planned;
  const { plan, kept } = removal;
  const object = {
    ...planObject(plan),
    ...{ kept, files, nftTables },
    unusedBackend: planObject(unusedPlan(planned)),
  };
  return plannedChanges(object, textOf(planned, files), hasChanges(planned, files));
}

function textOf(planned: CleanUpPlan, files: readonly string[]): string {
  const { removal, unused, nftTables } = planned;
  const sections = [removal.plan, unusedPlan(planned)].map((plan) =>
    plan.changes.length === 0 ? "" : planText(plan),
  );
  const list = (title: string, lines: readonly string[]): string =>
    lines.length === 0
      ? ""
      : `${title}: ${lines.length}\n${lines.map((line) => `  - ${line}\n`).join("")}`;
  const [main = "", ofUnused = ""] = sections;
  const where = `In ${unused[0]?.backend ?? ""}, which is not in use`;
  const parts = [
    main,
    ofUnused === "" ? "" : `${where}:\n${ofUnused}`,
    list("Tables of kube-proxy's nftables mode", nftTables),
    list("Files", files),
    keptLines(planned, removal.kept).join("\n"),
    hasChanges(planned, files) ? "" : "No changes.",
  ];
  return parts
    .filter(Boolean)
    .map((part) => part.trimEnd())
    .join("\n\n");
}

function unusedPlan({ unused }: CleanUpPlan): ChangePlan {
  return { ...emptyPlan, changes: unused.flatMap(({ removal }) => removal.changes) };
}

function hasChanges(planned: CleanUpPlan, files: readonly string[]): boolean {
  const { removal, nftTables } = planned;
  const { changes } = unusedPlan(planned);
  return removal.plan.changes.length + changes.length + nftTables.length + files.length > 0;
}

function failuresOf({
  removal,
  unusedFailures,
}: CleanUpPlan): readonly { readonly subject: string; readonly error: unknown }[] {
  const ofUnused = unusedFailures.map(({ backend, family, error }) => {
    return { subject: `${family} rules in ${backend}`, error };
  });
  return [...removal.failures, ...ofUnused];
}
