/** Determines the node's problems and when each began. Pure. */

import type { Counts, Problem, Status } from "../../answer/answers.ts";
import { conflictReasons } from "../../answer/reasons.ts";
import type { NotReadyTaint } from "../../api/cluster/not-ready-taint.ts";
import type { ObjectSource } from "../../api/source.ts";
import { grouped } from "../../base/counted.ts";
import { durationText } from "../../base/duration-text.ts";
import { subjectText } from "../../reconcile/subject.ts";
import type { ApiContact } from "../report/api-contact.ts";
import type { ProxyHealth } from "../report/proxy-health.ts";
import type { SyncHistory } from "../report/sync-history.ts";
import type { SecondsSince } from "./ages.ts";

/** The state from which problems are determined. */
export interface Evidence {
  readonly health: Pick<ProxyHealth, "notReadyReason">;
  readonly apiContact: Pick<ApiContact, "host" | "failing">;
  /** Why the node still has the taint. Undefined if taint removal is not enabled. */
  readonly notReadyTaint?: Pick<NotReadyTaint, "problem"> | undefined;
  /** The source of objects. */
  readonly source?: Pick<ObjectSource, "problem" | "invalidObjects"> | undefined;
  readonly history: SyncHistory;
  /** Monotonic start time of the program. */
  readonly startedAtMs: number;
  readonly secondsSince: SecondsSince;
}

/** Problems, worst first. Empty if the node is in the desired state. */
export function problemsOf(evidence: Evidence): readonly Problem[] {
  return [
    readiness,
    syncs,
    apiServer,
    manifests,
    taint,
    rejections,
    conflicts,
    repairs,
    drift,
  ].flatMap((find) => find(evidence));
}

/**
 * A startup that takes longer than this is a problem. Even with tens of thousands of Services, it takes only half a
 * minute.
 */
const longestStartSeconds = 60;

/** While the first sync is running and there are no other problems, the verdict is Starting, not Degraded. */
export function verdictOf(
  problems: readonly Problem[],
  { history, startedAtMs, secondsSince }: Evidence,
): Status["verdict"] {
  if (problems.length === 0) return "OK";
  const waitsOnly = problems.every(({ reason }) => reason === "not-ready");
  const isFirst = history.last === undefined && secondsSince(startedAtMs) < longestStartSeconds;
  return waitsOnly && isFirst ? "Starting" : "Degraded";
}

/** One line about the node, for example `OK, 1,204 Services, last sync 3 s ago, took 4.1 ms`. */
export function summaryOf(
  verdict: Status["verdict"],
  problems: readonly Problem[],
  { services }: Counts,
  { history: { last }, secondsSince }: Evidence,
): string {
  if (verdict === "OK") {
    const sync =
      last === undefined
        ? "no sync yet"
        : `last sync ${durationText(secondsSince(last.endedAtMs))} ago, took ${last.elapsedMs.toFixed(1)} ms`;
    return `OK, ${count(services, "Service")}, ${sync}`;
  }
  return `${verdict}: ${problemsText(problems)}`;
}

export function problemsText(problems: readonly Problem[]): string {
  const texts = problems.map(({ message, sinceSeconds }) =>
    sinceSeconds === undefined ? message : `${message} (for ${durationText(sinceSeconds)})`,
  );
  return texts.join("; ");
}

function readiness({ health, startedAtMs, history, secondsSince }: Evidence): readonly Problem[] {
  const message = health.notReadyReason;
  if (message === undefined) return [];
  const sinceSeconds = secondsSince(history.last?.endedAtMs ?? startedAtMs);
  return [{ reason: "not-ready", message, sinceSeconds }];
}

function syncs({ history: { failing }, secondsSince }: Evidence): readonly Problem[] {
  if (failing === undefined) return [];
  const message = `Syncs are failing: ${failing.message}`;
  return [{ reason: "sync-failed", message, sinceSeconds: secondsSince(failing.sinceMs) }];
}

function apiServer({ apiContact, secondsSince }: Evidence): readonly Problem[] {
  const { host, failing } = apiContact;
  if (failing === undefined) return [];
  const what = failing.code === "<error>" ? "does not answer" : `answers ${failing.code}`;
  const message = `API server ${host} ${what}`;
  const sinceSeconds = secondsSince(failing.sinceMs);
  return [{ reason: "api-server-unreachable", message, sinceSeconds }];
}

function manifests({ source, secondsSince }: Evidence): readonly Problem[] {
  const problem = source?.problem?.();
  if (problem === undefined) return [];
  const { message, sinceMs } = problem;
  return [{ reason: "manifests-unreadable", message, sinceSeconds: secondsSince(sinceMs) }];
}

function taint({ notReadyTaint, secondsSince }: Evidence): readonly Problem[] {
  const problem = notReadyTaint?.problem;
  if (problem === undefined) return [];
  const { message, sinceMs } = problem;
  return [{ reason: "taint-not-removed", message, sinceSeconds: secondsSince(sinceMs) }];
}

function rejections({ history, secondsSince }: Evidence): readonly Problem[] {
  const { rejections: present } = history;
  if (present.length === 0) return [];
  const reasons = [...new Set(present.map(({ reason }) => reason))].join(", ");
  const message = `${count(present.length, "object")} rejected by the kernel (${reasons})`;
  return [{ reason: "rejected-objects", message, sinceSeconds: oldest(present, secondsSince) }];
}

function conflicts({ history, secondsSince }: Evidence): readonly Problem[] {
  const unserved = history.conflicts.filter(({ reason }) => !conflictReasons[reason].isIntended);
  if (unserved.length === 0) return [];
  const reasons = [...new Set(unserved.map(({ reason }) => reason))].join(", ");
  // The message says "addresses" because only IPVS mode has virtual servers.
  const addresses = unserved.length === 1 ? "address" : "addresses";
  const message = `${grouped(unserved.length)} Service ${addresses} not served (${reasons})`;
  return [{ reason: "conflicts", message, sinceSeconds: oldest(unserved, secondsSince) }];
}

function repairs({ history: { reverted } }: Evidence): readonly Problem[] {
  if (reverted.length === 0) return [];
  const [first] = reverted.map(({ subject }) => subjectText(subject));
  const more = reverted.length === 1 ? "" : ` and ${grouped(reverted.length - 1)} more`;
  const message = `${count(reverted.length, "repair")} backing off because a third party keeps reverting ${first}${more}`;
  return [{ reason: "backing-off-repairs", message }];
}

function drift({ history: { unrepaired }, secondsSince }: Evidence): readonly Problem[] {
  const [first] = unrepaired.keys();
  if (first === undefined) return [];
  const sinceMs = Math.min(...unrepaired.values());
  const more = unrepaired.size === 1 ? "" : ` and ${grouped(unrepaired.size - 1)} more`;
  const message = `A third party changed real servers of ${first}${more}; the next verification will restore them`;
  return [{ reason: "drift", message, sinceSeconds: secondsSince(sinceMs) }];
}

function oldest(
  troubles: readonly { readonly sinceMs: number }[],
  secondsSince: SecondsSince,
): number {
  return Math.max(...troubles.map(({ sinceMs }) => secondsSince(sinceMs)));
}

function count(amount: number, noun: string): string {
  return `${grouped(amount)} ${noun}${amount === 1 ? "" : "s"}`;
}
