import type { IpFamily } from "../base/ip.ts";
import type { ConntrackPass, Outcomes, RefusedChange, UnknownOutcome } from "./apply/outcome.ts";
import type { ChangeKind } from "./change.ts";
import { type ChangePlan, emptyPlan } from "./change-plan.ts";
import type { Drift } from "./drift.ts";
import { subjectOf } from "./kinds/kinds.ts";
import type { ManualWeight } from "./status/manual-weights.ts";
import type { Rejection } from "./status/rejection.ts";
import type { ReconcileConflict } from "./status/repairs.ts";
import { countedText } from "./subject.ts";

/** Something that a sync could not find out or finish; it is repeated, after another observation. */
export interface Failure {
  readonly kind: ChangeKind | "observe";
  /** What it was about: a part of kernel state, or how many changes. */
  readonly subject: string;
  readonly error: Error;
}

/** What is done about a drift: `suppress` waits, since it is reverted every time; `report` changes nothing. */
export type DriftAction = "repair" | "suppress" | "report";

export interface FoundDrift extends Drift {
  readonly action: DriftAction;
}

/** What one sync did. */
export interface SyncReport {
  /** Worked out before the first write. */
  readonly plan: ChangePlan;
  /** Successful changes by kind; kinds without one are absent. */
  readonly changes: ReadonlyMap<ChangeKind, number>;
  /** Changes that the kernel rejected in this sync. */
  readonly rejected: readonly RefusedChange[];
  /** Families in which a run of iptables-restore failed. */
  readonly failedRestores: readonly IpFamily[];
  /** Empty: the sync ran and the kernel answers. */
  readonly failures: readonly Failure[];
  /** What the kernel rejects now, in this sync or before. */
  readonly rejections: readonly Rejection[];
  /** Passes through the connection table, one for each family that had a reason. */
  readonly conntrackPasses: readonly ConntrackPass[];
  /** Virtual servers that stay as they are, by key: not ours, or unwanted in an excluded network. */
  readonly foreignServers: readonly string[];
  /** Those of a third party that Services claim. */
  readonly conflicts: readonly string[];
  /** Foreign ones that may be ours, for all that is known. */
  readonly possiblyOwned: readonly string[];
  /** What a third party changed since the sync before, and what is done about it. */
  readonly drifts: readonly FoundDrift[];
  /** Repairs that a third party reverts again and again. */
  readonly reconcileConflicts: readonly ReconcileConflict[];
  /** Weights that a third party set and that stay. */
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

/** The part of a report that follows from the outcomes of changes. */
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

/** Number of changes in all. */
export function changeCount({ changes }: Pick<SyncReport, "changes">): number {
  let sum = 0;
  for (const times of changes.values()) sum += times;
  return sum;
}
