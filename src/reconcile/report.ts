import type { IpFamily } from "../base/ip.ts";
import type { TableName } from "../state/rule.ts";
import type { ServerKey } from "../state/virtual-server.ts";
import type { ConntrackPass, Outcomes, RefusedChange, UnknownOutcome } from "./apply/outcome.ts";
import type { ChangeKind } from "./change.ts";
import { type ChangePlan, emptyPlan } from "./change-plan.ts";
import type { Drift } from "./drift.ts";
import { subjectOf } from "./kinds/kinds.ts";
import type { ManualWeight } from "./status/manual-weights.ts";
import type { Rejection } from "./status/rejection.ts";
import type { ReconcileConflict } from "./status/repairs.ts";
import { countedText, type Subject } from "./subject.ts";

/** A failed read, or a request with an unknown outcome. The sync is repeated after a new observation. */
export interface Failure {
  readonly kind: ChangeKind | "observe";
  /** The part of kernel state that could not be read, or a description of the changes. */
  readonly subject: string;
  readonly error: Error;
}

/** The reaction to drift. `suppress` means that the repair is backing off. `report` means that nothing is changed. */
export type DriftAction = "repair" | "suppress" | "report";

export interface FoundDrift extends Drift {
  readonly action: DriftAction;
}

/** The result of one sync. */
export interface SyncReport {
  /** Computed before the first write. */
  readonly plan: ChangePlan;
  /** Number of successful changes by kind. Kinds without changes are omitted. */
  readonly changes: ReadonlyMap<ChangeKind, number>;
  /** Changes that the kernel rejected in this sync. */
  readonly rejected: readonly RefusedChange[];
  /** Families in which iptables-restore failed. */
  readonly failedRestores: readonly IpFamily[];
  /** Empty if the sync ran to its end and the kernel answered every request. */
  readonly failures: readonly Failure[];
  /** All current rejections, from this sync or earlier ones. */
  readonly rejections: readonly Rejection[];
  /** Checks of the connection table, at most one per family. */
  readonly conntrackPasses: readonly ConntrackPass[];
  /** Keys of virtual servers that are not changed: foreign ones, and undesired ones in excluded networks. */
  readonly foreignServers: readonly ServerKey[];
  /** Foreign virtual servers that Services also request. */
  readonly conflicts: readonly ServerKey[];
  /** Foreign virtual servers that may be ours. */
  readonly possiblyOwned: readonly ServerKey[];
  /** Third-party changes since the previous sync, and the reaction to each. */
  readonly drifts: readonly FoundDrift[];
  /** Repairs that a third party keeps reverting. */
  readonly reconcileConflicts: readonly ReconcileConflict[];
  /** Weights that a third party set and that are kept. */
  readonly manualWeights: readonly ManualWeight[];
}

export const emptyReport: SyncReport = {
  plan: emptyPlan,
  changes: new Map(),
  rejected: [],
  failedRestores: [],
  failures: [],
  rejections: [],
  conntrackPasses: [],
  foreignServers: [],
  conflicts: [],
  possiblyOwned: [],
  drifts: [],
  reconcileConflicts: [],
  manualWeights: [],
};

/** The part of a report that is derived from the changes' outcomes. */
export function reportOf(
  outcomes: Outcomes,
): Pick<SyncReport, "changes" | "rejected" | "failedRestores" | "failures" | "conntrackPasses"> {
  return {
    changes: outcomes.done,
    rejected: outcomes.refused,
    failedRestores: failedRestores(outcomes),
    failures: [...outcomes.unknown.map(failureOf), ...outcomes.unread],
    conntrackPasses: outcomes.conntrackPasses,
  };
}

function failedRestores({ refused, unknown }: Outcomes): readonly IpFamily[] {
  const subjects = [
    ...refused.map(({ change }) => subjectOf(change)),
    ...unknown.map(({ first }) => first),
  ];
  const families = subjects.flatMap((subject) =>
    subject.type === "chain" ? [subject.family] : [],
  );
  return [...new Set(families)];
}

function failureOf({ kind, first, count, error }: UnknownOutcome): Failure {
  return { kind, subject: countedText(first, count - 1), error };
}

/** Whether the sync succeeded and the kernel rejects no rules of this table, or of any table. */
export function hasAllRules(
  { failures, rejected, rejections }: SyncReport,
  table?: TableName,
): boolean {
  const subjects = [
    ...rejected.map(({ change }) => subjectOf(change)),
    ...rejections.map(({ subject }) => subject),
  ];
  const isRejected = (subject: Subject): boolean =>
    subject.type === "chain" && (table === undefined || subject.table === table);
  return failures.length === 0 && !subjects.some(isRejected);
}

/** Total number of changes. */
export function changeCount({ changes }: Pick<SyncReport, "changes">): number {
  let sum = 0;
  for (const times of changes.values()) sum += times;
  return sum;
}
