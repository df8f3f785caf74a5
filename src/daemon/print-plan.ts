/** Implements `kube-ipvs plan`: what the next sync, a start or a clean-up would change on this node. Writes nothing. */
import { apiVersion, type Status } from "../answer/answers.ts";
import { type KeptObject, type Plan, planBeyond } from "../answer/plan.ts";
import { type ServiceRow, serverKeyOf } from "../answer/rows.ts";
import type { AppliedFile } from "../api/manifest/applied-file.ts";
import type { ServiceName } from "../base/service-name.ts";
import type { Config } from "../config/config.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { Change, ChangeOf } from "../reconcile/change.ts";
import {
  type ChangePlan,
  type DeferralReason,
  type DeferredChange,
  withoutFlowChecks,
} from "../reconcile/change-plan.ts";
import { subjectOf } from "../reconcile/kinds/kinds.ts";
import { planObject } from "../reconcile/plan-object.ts";
import { subjectText } from "../reconcile/subject.ts";
import { sameRealServer } from "../state/real-server.ts";
import { planCleanUp, planRemovals } from "./clean-up.ts";
import { type EarlierRuns, leftoverRemovals } from "./leftovers/remove-leftovers.ts";
import { openKernelForCleanUp } from "./node/open-node-kernel.ts";
import { findOtherProxy } from "./node/other-proxy.ts";
import { type ObserveOnceContext, observeOnce } from "./observe-once.ts";
import { modeRecordIn } from "./process/mode-record.ts";
import { readState } from "./process/state-file.ts";
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

/** The running daemon, whose next sync is planned. */
export interface RunningDaemon {
  readonly status: Status;
  /** The Service's rows with endpoints, whose weights are those that the daemon last read or wrote. */
  readonly rowsOf: (service: ServiceName) => Promise<readonly ServiceRow[]>;
}

/**
 * Returns what the next sync of `daemon` would change. If `daemon` is undefined, returns what a daemon that starts now
 * would change, including the leftovers that it would then remove. Rejects if this cannot be determined.
 */
export async function planSync(
  config: Config,
  parts: ObserveOnceContext,
  daemon?: RunningDaemon,
): Promise<Plan> {
  return await planned(config, parts, daemon, modeRecordIn(readState(config.stateFile, parts.log)));
}

/** Returns what applying a file would change. Changes that would be made without the file are not included. */
export async function planApplied(
  config: Config,
  parts: ObserveOnceContext,
  applied: AppliedFile,
  daemon?: RunningDaemon,
): Promise<Plan> {
  const pending = await planned(config, parts, daemon);
  return planBeyond(pending, await planned(config, { ...parts, applied }, daemon));
}

/** Without `runs`, leftovers are omitted. */
async function planned(
  config: Config,
  parts: ObserveOnceContext,
  daemon: RunningDaemon | undefined,
  runs?: EarlierRuns,
): Promise<Plan> {
  const finish = async (first: ChangePlan, kernel: Kernel | undefined): Promise<Plan> => {
    const plan = await planOf(withoutFlowChecks(first), config, daemon);
    if (kernel === undefined || runs === undefined) return plan;
    const left = await planRemovals(await leftoverRemovals(kernel, config, runs), parts.clock);
    const changes = [...plan.changes, ...left.changes];
    return { ...plan, ...left, changes, kept: [...(plan.kept ?? []), ...left.kept] };
  };
  if (config.mode === "userspace") return await planUserspaceStart(config, parts, finish);
  return await observeOnce(config, parts, async ({ report, view, kernel }) => ({
    ...(await finish(report.plan, kernel)),
    ...(view.iptables === undefined ? {} : { iptablesBackend: view.iptables.choice.backend }),
  }));
}

/**
 * The plan of the daemon's next sync. Changes whose retry or repair is not due yet are listed as pending, and weights
 * that the daemon keeps are listed as kept.
 */
export async function planOf(
  first: ChangePlan,
  { manualWeights }: Pick<Config, "manualWeights">,
  daemon: RunningDaemon | undefined,
): Promise<Plan> {
  const envelope = { apiVersion, kind: "Plan" } as const;
  if (daemon === undefined) return { ...envelope, ...planObject(first) };
  const pending = pendingIn(daemon.status);
  const rows = new Map<ServiceName, Promise<readonly ServiceRow[]>>();
  const rowsOf = (service: ServiceName): Promise<readonly ServiceRow[]> => {
    const found = rows.get(service) ?? daemon.rowsOf(service);
    rows.set(service, found);
    return found;
  };
  const changes: Change[] = [];
  const deferred: DeferredChange[] = [...first.deferred];
  const kept: KeptObject[] = [];
  for (const change of first.changes) {
    const subject = subjectOf(change);
    const text = subjectText(subject);
    const server = "virtualServer" in subject ? subject.virtualServer : text;
    const reason = pending.get(text) ?? pending.get(server);
    if (reason !== undefined) deferred.push({ change, reason });
    else if (manualWeights === "keep" && change.kind === "real-server-update") {
      const services = first.servicesOf(change);
      const isKept =
        isListed(change, text, daemon.status) ||
        isUnnoticed(change, (await Promise.all(services.map(rowsOf))).flat());
      const after = isKept ? { ...change.after, weight: change.before.weight } : change.after;
      if (isKept) kept.push({ subject: text, reason: "manual-weight" });
      if (!sameRealServer(after, change.before)) changes.push({ ...change, after });
    } else changes.push(change);
  }
  return { ...envelope, ...planObject({ ...first, changes, deferred }), kept };
}

/** The objects whose retries or repairs are not due yet. */
function pendingIn(status: Status): ReadonlyMap<string, DeferralReason> {
  const all = [
    ...status.backingOffRepairs.map((one) => ({ ...one, why: "reverted" as const })),
    ...status.rejectedObjects.map((one) => ({ ...one, why: "refused" as const })),
  ];
  const pending = all.filter(({ retryInSeconds }) => retryInSeconds > 0);
  return new Map(pending.map(({ subject, why }) => [subject, why]));
}

function isListed(
  { before, after }: ChangeOf<"real-server-update">,
  subject: string,
  { manualWeights }: Status,
): boolean {
  return manualWeights.some(
    ({ realServer, weight, plannedWeight }) =>
      realServer === subject && weight === before.weight && plannedWeight === after.weight,
  );
}

/** Whether a third party changed the weight after the daemon wrote it, and no verification has found the change yet. */
function isUnnoticed(
  { key, before, after, reason }: ChangeOf<"real-server-update">,
  rows: readonly ServiceRow[],
): boolean {
  if (reason !== "differs" || before.forwardingMethod !== after.forwardingMethod) return false;
  const known = rows
    .filter((row) => serverKeyOf(row) === key)
    .flatMap(({ endpoints = [] }) => endpoints)
    .find(({ address, port }) => address === after.address && port === after.port);
  return known?.weight === after.weight;
}
