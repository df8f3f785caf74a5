/** `kube-ipvs plan --cleanup`: what `--cleanup` would remove, by its own planning. Nothing is written. */
import { existsSync } from "node:fs";
import { type PlannedChanges, plannedChanges } from "../answer/plan.ts";
import { errorText } from "../base/error-text.ts";
import type { Config } from "../config/config.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { observeOnly } from "../kernel/observe-only.ts";
import { openKernel } from "../kernel/open-kernel.ts";
import type { Kept } from "../reconcile/diff/plan-removal.ts";
import { type PlannedRemoval, planRemovalFrom } from "../reconcile/remove-all.ts";
import { planObject } from "../reconcile/render/plan-json.ts";
import { planText } from "../reconcile/render/plan-text.ts";
import { keptReasons, removalGoal } from "./clean-up.ts";
import { presentNftTables } from "./node/other-modes.ts";
import { countUnusedRules } from "./node/unused-backend.ts";
import { statePaths } from "./process/state-file.ts";
import type { CommandParts } from "./run.ts";

/** Rejects if the kernel cannot be read. */
export async function planCleanUp(
  config: Config,
  parts: Pick<CommandParts, "clock" | "log">,
): Promise<PlannedChanges> {
  const { clock, log } = parts;
  const kernel = await openKernel({ clock, log, environment: process.env });
  try {
    const removal = await planFor(kernel, config, parts);
    return plannedChanges(objectOf(removal), textOf(removal), hasChanges(removal));
  } finally {
    kernel.close();
  }
}

export interface CleanUpPlan extends Pick<PlannedRemoval, "plan" | "kept"> {
  readonly files: readonly string[];
  /** Of ours, in the backend of iptables that is not in use. */
  readonly unusedRuleCount: number;
  /** Chains of kube-proxy's mode iptables: `legacy IPv4 nat KUBE-SEP-…`. They stay while a kube-proxy runs. */
  readonly modeChains: readonly string[];
  /** Of kube-proxy's mode nftables: `ip kube-proxy`. They stay while a kube-proxy runs. */
  readonly nftTables: readonly string[];
}

async function planFor(
  kernel: Kernel,
  config: Config,
  { clock }: Pick<CommandParts, "clock">,
): Promise<CleanUpPlan> {
  const observed = observeOnly(kernel);
  const goal = await removalGoal(observed, config);
  const { plan, kept, failures } = await planRemovalFrom(observed, clock, goal);
  const [failure] = failures;
  if (failure !== undefined) {
    const message = `Cannot plan the clean-up: ${failure.subject}: ${errorText(failure.error)}`;
    throw new Error(message, { cause: failure.error });
  }
  const paths = [...statePaths(config.statePath), config.operatorSocketPath];
  return {
    plan,
    kept,
    files: paths.filter((path) => path !== "" && existsSync(path)),
    unusedRuleCount: await countUnusedRules(kernel, config),
    modeChains: (kernel.iptablesMode ?? []).flatMap(({ backend, found }) =>
      [...found].flatMap(([family, chains]) =>
        chains.map((chain) => `${backend} ${family} ${chain}`),
      ),
    ),
    nftTables: await presentNftTables(kernel),
  };
}

function hasChanges({ plan, files, unusedRuleCount, modeChains, nftTables }: CleanUpPlan): boolean {
  const named = files.length + modeChains.length + nftTables.length;
  return plan.changes.length + unusedRuleCount + named > 0;
}

/** Pure. */
export function objectOf({ plan, ...rest }: CleanUpPlan): object {
  return { ...planObject(plan), ...rest };
}

/** Pure. */
export function textOf(removal: CleanUpPlan): string {
  const { plan, kept, files, unusedRuleCount, modeChains, nftTables } = removal;
  if (!hasChanges(removal)) return [...keptLines(kept), "No changes."].join("\n");
  const chains = plan.changes.length === 0 ? [] : [planText(plan).trimEnd(), ""];
  const group = (title: string, lines: readonly string[]): readonly string[] =>
    lines.length === 0
      ? []
      : [`${title}: ${lines.length}`, ...lines.map((line) => `  - ${line}`), ""];
  const unused =
    unusedRuleCount === 0
      ? []
      : [`iptables chains and jumps in the backend that is not in use: ${unusedRuleCount}`, ""];
  return [
    ...chains,
    ...unused,
    ...group("Chains of kube-proxy's mode iptables, unless a kube-proxy runs", modeChains),
    ...group("Tables of kube-proxy's mode nftables, unless a kube-proxy runs", nftTables),
    ...group("Files", files),
    ...keptLines(kept),
  ]
    .join("\n")
    .trimEnd();
}

function keptLines(kept: readonly Kept[]): readonly string[] {
  return kept.map(({ subject, reason }) => `Kept ${subject}: ${keptReasons[reason]}`);
}
