/**
 * The resources that are not as desired, and when their changes are retried. A resource that is as desired has no
 * status, unless it was repaired in the last ten minutes. The current time is always passed as an argument.
 *
 * | status | meaning |
 * |---|---|
 * | rejected | the kernel rejected the last change; it is retried with back-off |
 * | withheld | a dependency is missing, so the resource was not created, or it was withdrawn |
 * | retained | its removal waits until a dependent is removed; stored as withheld |
 * | tolerated | its value differs and is accepted: a repair that is backing off, or a manual weight |
 */
import { earliest } from "../../base/earliest.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { Outcomes } from "../apply/outcome.ts";
import type { Change } from "../change.ts";
import type { ChangePlan, DeferralReason, DeferredChange } from "../change-plan.ts";
import { subjectOf } from "../kinds/kinds.ts";
import { isTouched, type Scope } from "../scope.ts";
import { type Subject, type SubjectKey, subjectKey } from "../subject.ts";
import type { SyncGoal } from "../sync-goal.ts";
import type { ManualWeight } from "./manual-weights.ts";
import { nextRejection, pauseAfter, type Rejection } from "./rejection.ts";
import { isBackingOff, type Repairs } from "./repairs.ts";

export interface Status {
  readonly subject: Subject;
  /** The resource's changes are pending until this time (monotonic). Undefined if no retry is scheduled. */
  retryAtMs?: number | undefined;
  rejection?: Rejection | undefined;
  /** Withheld or retained. */
  isWithheld?: boolean;
  repairs?: Repairs | undefined;
  manualWeight?: ManualWeight | undefined;
}

export class StatusTable {
  readonly #byKey = new Map<SubjectKey, Status>();

  get isEmpty(): boolean {
    return this.#byKey.size === 0;
  }

  find(subject: Subject): Status | undefined {
    return this.isEmpty ? undefined : this.#byKey.get(subjectKey(subject));
  }

  /** Returns this resource's status, and creates it if necessary. */
  of(subject: Subject): Status {
    const key = subjectKey(subject);
    const status = this.#byKey.get(key) ?? { subject };
    this.#byKey.set(key, status);
    return status;
  }

  values(): Iterable<Status> {
    return this.#byKey.values();
  }

  /** Removes the statuses of resources that are as desired again. */
  removeDone(): void {
    for (const [key, { rejection, isWithheld, repairs, manualWeight }] of this.#byKey) {
      if (rejection === undefined && !isWithheld && !repairs && !manualWeight)
        this.#byKey.delete(key);
    }
  }

  /**
   * The time of the next retry (monotonic). Undefined if there is nothing to retry. Drain ends are not included,
   * because the drain check retries them.
   */
  get nextRetryMs(): number | undefined {
    return earliest(
      [...this.#byKey.values()].flatMap(({ retryAtMs, rejection, repairs }) => [
        ...(retryAtMs === undefined || rejection?.isDrainEnd === true ? [] : [retryAtMs]),
        ...(repairs?.distrustedUntilMs === undefined ? [] : [repairs.distrustedUntilMs]),
      ]),
    );
  }

  isPending(subject: Subject, nowMs: number): boolean {
    return (this.find(subject)?.retryAtMs ?? nowMs) > nowMs;
  }

  /**
   * Adds all pending and withheld resources to a scope, even if their retry is not due, so that the plan takes into
   * account that they are missing, and creates them as soon as possible. Resources whose retry is due are no longer
   * pending.
   */
  includeIn(scope: Scope, nowMs: number): void {
    for (const status of this.#byKey.values()) {
      const { subject, retryAtMs, rejection, isWithheld, repairs } = status;
      if (retryAtMs !== undefined || rejection !== undefined || isWithheld) {
        scope.includeSubject(subject);
      }
      if (retryAtMs !== undefined && retryAtMs <= nowMs && rejection?.isDrainEnd !== true) {
        status.retryAtMs = undefined;
      }
      if ((repairs?.distrustedUntilMs ?? nowMs) <= nowMs) delete repairs?.distrustedUntilMs;
    }
  }

  /** Called for virtual servers that planning touched. Makes the next drain check retry their rejected drain ends. */
  hastenDrainEnds(virtualServers: ReadonlySet<ServerKey>): void {
    for (const status of this.#byKey.values()) {
      const { rejection, subject } = status;
      const isTouchedEnd =
        rejection?.isDrainEnd === true &&
        "virtualServer" in subject &&
        virtualServers.has(subject.virtualServer);
      if (isTouchedEnd) status.retryAtMs = undefined;
    }
  }

  /**
   * Removes the pending changes from a plan. A change whose subject planning touched is never pending, because it is
   * neither a retry nor a repair.
   */
  defer(
    planned: readonly Change[],
    touched: SyncGoal["touched"],
    nowMs: number,
  ): Pick<ChangePlan, "changes" | "deferred"> {
    if (this.isEmpty) return { changes: planned, deferred: [] };
    const changes: Change[] = [];
    const deferred: DeferredChange[] = [];
    for (const change of planned) {
      const subject = subjectOf(change);
      const reason = isTouched(subject, touched) ? undefined : this.#pendingReason(subject, nowMs);
      if (reason === undefined) changes.push(change);
      else deferred.push({ change, reason });
    }
    return { changes, deferred };
  }

  #pendingReason(subject: Subject, nowMs: number): DeferralReason | undefined {
    if (this.isPending(subject, nowMs)) {
      return this.find(subject)?.rejection === undefined ? "reverted" : "refused";
    }
    // A real server is created and removed with its virtual server, so it is also pending if its virtual server is. An
    // address needs no such check, because it always waits for its link.
    if (subject.type !== "real-server") return undefined;
    const { virtualServer } = subject;
    return isBackingOff(this, { type: "virtual-server", virtualServer }, nowMs)
      ? "reverted"
      : undefined;
  }

  /** Updates the statuses after a sync that attempted all changes that were not deferred. */
  note(outcomes: Outcomes, { deferred, servicesOf }: ChangePlan, nowMs: number): void {
    const withheld = [...outcomes.blocked, ...outcomes.withdrawn];
    if (this.isEmpty && withheld.length + outcomes.refused.length === 0) return;
    for (const status of this.#byKey.values()) status.isWithheld = false;
    for (const change of withheld) this.of(subjectOf(change)).isWithheld = true;
    const rejected = this.reject(outcomes.refused, servicesOf, nowMs);
    const pending = [...deferred.map(({ change }) => change), ...outcomes.blocked];
    const pendingKeys = new Set(pending.map((change) => subjectKey(subjectOf(change))));
    const isUnknown = outcomes.unknown.length > 0;
    this.endRejections((status) => {
      const { rejection, subject } = status;
      if (rejection === undefined || rejection.isDrainEnd || rejected.has(status)) return false;
      if (!isUnknown && !pendingKeys.has(subjectKey(subject))) return true;
      status.retryAtMs ??= nowMs + pauseAfter(rejection.attempts);
      return false;
    });
  }

  /** Records one rejection per subject, even if several of its changes were rejected. */
  reject(
    refused: Outcomes["refused"],
    servicesOf: ChangePlan["servicesOf"],
    nowMs: number,
  ): ReadonlySet<Status> {
    const rejected = new Set<Status>();
    for (const { change, error } of refused) {
      const status = this.of(subjectOf(change));
      if (rejected.has(status)) continue;
      rejected.add(status);
      const one = { change, error, services: servicesOf(change) };
      status.rejection = nextRejection(status.rejection, one, nowMs);
      status.retryAtMs = status.rejection.dueMs;
    }
    return rejected;
  }

  /** Ends the rejection. Called when the change was made or is no longer desired. */
  endRejection(status: Status): void {
    status.rejection = undefined;
    status.retryAtMs = undefined;
  }

  /** Ends the rejections for which `isOver` returns true. */
  endRejections(isOver: (status: Status) => boolean): void {
    for (const status of this.#byKey.values()) {
      if (status.rejection !== undefined && isOver(status)) this.endRejection(status);
    }
    this.removeDone();
  }

  /** The current rejections that are reported. */
  get rejections(): readonly Rejection[] {
    return [...this.#byKey.values()].flatMap(({ rejection, retryAtMs }) =>
      rejection?.isReported === true ? [{ ...rejection, dueMs: retryAtMs ?? rejection.dueMs }] : [],
    );
  }
}
