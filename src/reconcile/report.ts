import { errorText } from "../base/error-text.ts";
import type { IpFamily } from "../base/ip.ts";
import type { Drift } from "./drift.ts";
import type { Storm } from "./repair-guard.ts";

/** Kinds of kernel changes, as counted in `kube_ipvs_kernel_changes_total`. */
export type ChangeKind =
  | "link-create"
  | "set-create"
  | "set-destroy"
  | "set-migrate"
  | "entry-add"
  | "entry-remove"
  | "rules-write"
  | "rules-remove"
  | "virtual-server-create"
  | "virtual-server-update"
  | "virtual-server-remove"
  | "real-server-create"
  | "real-server-update"
  | "real-server-remove"
  | "address-add"
  | "address-remove"
  | "link-remove"
  | "flow-remove"
  | "sysctl-write";

/** One change that did not come about. */
export interface Failure {
  readonly kind: ChangeKind | "observe";
  /** What it was about, in the words of the operator's tools. */
  readonly subject: string;
  readonly error: Error;
}

/** What one sync did. */
export interface SyncReport {
  /** Successful changes by kind; kinds without one are absent. */
  readonly changes: ReadonlyMap<ChangeKind, number>;
  readonly failures: readonly Failure[];
  /** Looks for stale flows, one for each family that had a reason. */
  readonly flowSweeps: readonly FlowSweep[];
  /** Virtual servers of others, by key; absent where not everything was compared. */
  readonly foreignServers?: readonly string[];
  /** Those of them that Services claim; absent where not everything was compared. */
  readonly contestedServers?: readonly string[];
  /** What others changed since the sync before, and what is done about it. */
  readonly drifts: readonly FoundDrift[];
  /** Things that others change again and again. */
  readonly storms: readonly Storm[];
}

export interface FoundDrift extends Drift {
  /** `hold`: not repaired for now, since somebody undoes it every time. */
  readonly action: "repair" | "hold" | "report";
}

/** One look through the connection table. */
export interface FlowSweep {
  readonly family: IpFamily;
  readonly elapsedMs: number;
  readonly removedCount: number;
}

/** Collects a report while a sync runs. */
export class ReportBuilder {
  readonly #changes = new Map<ChangeKind, number>();
  readonly #failures: Failure[] = [];
  readonly #flowSweeps: FlowSweep[] = [];
  #foreign: Pick<SyncReport, "foreignServers" | "contestedServers"> = {};
  readonly #taken: string[] = [];
  readonly #drifts: FoundDrift[] = [];
  #storms: readonly Storm[] = [];

  count(kind: ChangeKind, times = 1): void {
    if (times > 0) this.#changes.set(kind, (this.#changes.get(kind) ?? 0) + times);
  }

  fail(kind: Failure["kind"], subject: string, error: unknown): void {
    const cause = error instanceof Error ? error : new Error(errorText(error));
    this.#failures.push({ kind, subject, error: cause });
  }

  sweep(sweep: FlowSweep): void {
    this.#flowSweeps.push(sweep);
    this.count("flow-remove", sweep.removedCount);
  }

  foreign(foreignServers: readonly string[], contestedServers: readonly string[]): void {
    this.#foreign = { foreignServers, contestedServers };
  }

  /** A virtual server that should have been new was there already. */
  taken(key: string): void {
    this.#taken.push(key);
  }

  get takenServers(): readonly string[] {
    return this.#taken;
  }

  drift(drifts: readonly FoundDrift[]): void {
    this.#drifts.push(...drifts);
  }

  storms(storms: readonly Storm[]): void {
    this.#storms = storms;
  }

  hasFailed(kind: Failure["kind"]): boolean {
    return this.#failures.some((failure) => failure.kind === kind);
  }

  get hasFailures(): boolean {
    return this.#failures.length > 0;
  }

  build(): SyncReport {
    return {
      changes: this.#changes,
      failures: this.#failures,
      flowSweeps: this.#flowSweeps,
      drifts: this.#drifts,
      storms: this.#storms,
      ...this.#foreign,
    };
  }
}

/** Number of changes in all. */
export function changeCount(report: SyncReport): number {
  let sum = 0;
  for (const times of report.changes.values()) sum += times;
  return sum;
}
