/** Implements `--cleanup` and `plan --cleanup`: removes or lists everything that is ours on this node. */
import { existsSync } from "node:fs";
import { apiVersion } from "../answer/answers.ts";
import { keptTexts, type Plan, removedTexts } from "../answer/plan.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { ipFamilies } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { tableName } from "../kernel/nftables/message.ts";
import { observeOnly } from "../kernel/observe-only.ts";
import { withoutFlowChecks } from "../reconcile/change-plan.ts";
import type { CleanUpFailure } from "../reconcile/clean-up.ts";
import { planObject } from "../reconcile/plan-object.ts";
import type { PlannedChange } from "../state/planned-change.ts";
import { ownedBy } from "./leftovers/ipvs-leftovers.ts";
import {
  carryOut,
  isRestricted,
  type Removal,
  type RemovalContext,
  type Removed,
  rulesGoals,
  unusedRemovals,
} from "./leftovers/removal.ts";
import { mayBeInUse, tableOfKubeProxy } from "./leftovers/remove-leftovers.ts";
import type { Mode } from "./leftovers/rules-of-modes.ts";
import { type OtherProxy, proxyText } from "./node/other-proxy.ts";
import { removeLeftoverSocket } from "./operator/operator-socket.ts";
import { ownershipRecordIn } from "./process/ownership-record.ts";
import { readState, removeStateFile, statePaths } from "./process/state-file.ts";

export interface CleanUpContext {
  readonly clock?: Clock;
  /** The kube-proxy running on this node. Undefined if none was found. */
  readonly proxy?: OtherProxy | undefined;
}

/** Cleans up and prints what was removed. Resolves with true if everything could be removed. */
export async function cleanUpAndPrint(
  kernel: Kernel,
  config: Config,
  print: (line: string) => void,
  { clock = systemClock, proxy }: CleanUpContext = {},
): Promise<boolean> {
  const { removals, kubeProxy } = await cleanUpRemovals(kernel, config, proxy);
  const { removed, failures } = await removeInOrder(removals, { clock });
  // After a failure, keep the state files: the next clean-up needs them to recognize our objects.
  const files = await removeFiles(failures.length === 0 ? recordPaths(config) : [], config);
  const all = [...failures, ...files.failures];
  const plan = { ...planOf(kernel, removed), ...kubeProxy, files: files.removed };
  const failed = all.map(
    ({ subject, error }) => `Could not remove ${subject}: ${errorText(error)}`,
  );
  for (const line of [...removedTexts(plan), ...keptTexts(plan), ...failed]) print(line);
  return all.length === 0;
}

/** Returns what a clean-up would remove. Rejects if the kernel cannot be read. */
export async function planCleanUp(
  kernel: Kernel,
  config: Config,
  { clock = systemClock, proxy }: CleanUpContext = {},
): Promise<Plan> {
  const unchanged = { ...kernel, modules: observeOnly(kernel).modules };
  const { removals, kubeProxy } = await cleanUpRemovals(unchanged, config, proxy);
  const removed = await planRemovals(removals, clock);
  const files = [...recordPaths(config), config.operatorSocket].filter(existsSync);
  return { ...planOf(kernel, removed), ...kubeProxy, files };
}

function planOf({ iptables: { backend } }: Kernel, removed: RemovedObjects): Plan {
  return { apiVersion, kind: "Plan", conflicts: [], ...removed, iptablesBackend: backend };
}

export type RemovedObjects = Pick<Plan, "changes"> &
  Required<Pick<Plan, "unusedBackend" | "nftTables" | "kept">>;

/** Returns what the removals would remove. Rejects if the kernel cannot be read. */
export async function planRemovals(
  removals: readonly Removal[],
  clock: Clock,
): Promise<RemovedObjects> {
  const { removed, failures } = await removeInOrder(removals, { clock, isDryRun: true });
  const [failure] = failures;
  if (failure === undefined) return removed;
  const message = `Cannot plan removals: ${failure.subject}: ${errorText(failure.error)}`;
  throw new Error(message, { cause: failure.error });
}

async function removeInOrder(
  removals: readonly Removal[],
  context: RemovalContext,
): Promise<{ readonly removed: RemovedObjects; readonly failures: readonly CleanUpFailure[] }> {
  const changes: PlannedChange[] = [];
  const changesInUnused: PlannedChange[] = [];
  const reports: Pick<Removed, "tables" | "kept" | "failures">[] = [];
  for (const removal of removals) {
    const { unused } = removal;
    const report = await carryOut(removal, context);
    const { changes: planned } = planObject(withoutFlowChecks(report.plan));
    const done = context.isDryRun === true ? planned : doneOf(planned, report);
    (unused === undefined ? changes : changesInUnused).push(...done);
    const named = <T extends { readonly subject: string }>(one: T): T =>
      unused === undefined ? one : { ...one, subject: `${one.subject} in ${unused}` };
    const [kept, failures] = [report.kept.map(named), report.failures.map(named)];
    reports.push({ tables: report.tables, kept, failures });
    if (failures.length > 0 && isRestricted(removal)) break;
  }
  const names = new Set(removals.flatMap((removal) => removal.unused ?? []));
  return {
    removed: {
      changes,
      unusedBackend: { name: [...names].join(" and "), changes: changesInUnused, conflicts: [] },
      nftTables: reports.flatMap(({ tables }) => tables),
      kept: reports.flatMap(({ kept }) => kept),
    },
    failures: reports.flatMap(({ failures }) => failures),
  };
}

/** The planned changes, limited for each kind to the number of changes that the kernel made. */
function doneOf(planned: readonly PlannedChange[], { changes }: Removed): readonly PlannedChange[] {
  const left = new Map<string, number>(changes);
  return planned.filter(({ kind }) => {
    const count = left.get(kind) ?? 0;
    left.set(kind, count - 1);
    return count > 0;
  });
}

/** Before the first write, reads which objects are ours and which IP families are supported. Rejects on failure. */
async function cleanUpRemovals(
  kernel: Kernel,
  config: Config,
  proxy: OtherProxy | undefined,
): Promise<{
  readonly removals: readonly Removal[];
  readonly kubeProxy: Pick<Plan, "kubeProxy">;
}> {
  const user = userOfRules(config, proxy);
  const ours: readonly Mode[] = ["ipvs", "userspace"];
  const modes = user === undefined ? [...ours, "iptables" as const] : ours;
  const { iptables } = kernel;
  const record = ownershipRecordIn(readState(config.stateFile));
  const ipvs = { ...(await ownedBy(kernel, config, record)), hasIpvs: await findIpvs(kernel) };
  const probes = await Promise.all(ipFamilies.map((family) => iptables.probe(family)));
  const families = ipFamilies.filter((_, index) => probes[index]?.isSupported);
  const others = await unusedRemovals(kernel, config, modes);
  const rules = rulesGoals(families, { modes, current: undefined }, config, iptables);
  const step = { what: "", kernel };
  // If the backend in use is iptables, remove the unused backend's rules first, because they refer to ipsets that are
  // removed later. If it is nf_tables, remove the unused ipsets last, because they identify virtual servers as ours.
  const isInTables = iptables.backend === "nftables";
  return {
    removals: [
      { ...step, links: true },
      ...(user === undefined ? [{ ...step, table: tableOfKubeProxy }] : []),
      ...(isInTables ? [] : others),
      { ...step, goal: { rules, ipvs } },
      ...(isInTables ? others : []),
      // Source ranges must apply as long as virtual servers exist.
      { ...step, table: tableName },
    ],
    kubeProxy: user === undefined ? {} : { kubeProxy: user },
  };
}

/** Paths of the state files, which are kept between runs. */
function recordPaths({ stateFile, claimsFile }: Config): readonly string[] {
  return [...statePaths(stateFile), claimsFile].filter((path) => path !== "");
}

/**
 * Why the rules of iptables mode must be kept. Undefined if they may be removed. A kube-proxy in IPVS mode does not
 * need them. If only kube-proxy's process was found, its mode is unknown, so the rules are kept.
 */
function userOfRules(config: Config, proxy: OtherProxy | undefined): string | undefined {
  if (proxy !== undefined && !(proxy.kind === "port" && proxy.mode === "ipvs")) {
    return proxyText(proxy);
  }
  return mayBeInUse(config) ? "kube-proxy may be running" : undefined;
}

async function findIpvs(kernel: Kernel): Promise<boolean> {
  if (kernel.modules.isAvailable("ip_vs") === true) return true;
  try {
    await kernel.modules.load("ip_vs");
    return true;
  } catch {
    return false;
  }
}

/**
 * Removes the state files at these paths, and the operator socket if a killed daemon left it behind. A daemon that
 * stops normally removes its own socket.
 */
async function removeFiles(
  paths: readonly string[],
  { operatorSocket }: Config,
): Promise<{ readonly removed: readonly string[]; readonly failures: readonly CleanUpFailure[] }> {
  const removed: string[] = [];
  const failures: CleanUpFailure[] = [];
  for (const path of paths) {
    try {
      if (await removeStateFile(path)) removed.push(path);
    } catch (error) {
      failures.push({ subject: path, error });
    }
  }
  if (await removeLeftoverSocket(operatorSocket).catch(() => false)) {
    removed.push(operatorSocket);
  }
  return { removed, failures };
}
