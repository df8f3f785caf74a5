/** Summarizes the daemon's state. Pure, except for clocks. */
import { release } from "node:os";
import { apiVersion, type Status, type SyncStatus } from "../../answer/answers.ts";
import type { Clock } from "../../base/clock.ts";
import { version } from "../../base/version.ts";
import type { Config } from "../../config/config.ts";
import { subjectText } from "../../reconcile/subject.ts";
import type { ApiContact } from "../report/api-contact.ts";
import type { ProxyHealth } from "../report/proxy-health.ts";
import { manualWeightText } from "../report/sync-findings.ts";
import { type PastSync, SyncHistory } from "../report/sync-history.ts";
import { agesNow, type SecondsSince, toTenth } from "./ages.ts";
import type { ModeView } from "./daemon-view.ts";
import { countsOf } from "./object-counts.ts";
import { type Evidence, problemsOf, problemsText, summaryOf, verdictOf } from "./verdict.ts";

export interface StatusSources {
  readonly clock: Pick<Clock, "monotonicMs" | "nowMs">;
  /** The configuration at startup. The reloaded configuration is in the view. */
  readonly config: Config;
  readonly health: ProxyHealth;
  readonly apiContact: ApiContact;
  readonly notReadyTaint?: Evidence["notReadyTaint"];
  readonly source?: Evidence["source"];
  /** Monotonic start time of the program. */
  readonly startedAtMs: number;
  /** Undefined until the kernel is prepared. */
  readonly view: ModeView | undefined;
}

/** Maximum number of listed objects of each kind, unless all objects are requested. Counts are not limited. */
const mostListed = 100;

/** Builds the status. Yields regularly while it counts objects, which is slow. */
export function* statusOf(sources: StatusSources, isWhole = false): Generator<void, Status> {
  const maxListed = isWhole ? Number.POSITIVE_INFINITY : mostListed;
  const { view, health, apiContact } = sources;
  const config = view?.config ?? sources.config;
  const invalidObjects = sources.source?.invalidObjects?.() ?? [];
  const counts = { ...(yield* countsOf(view)), invalidObjects: invalidObjects.length };
  const history = view?.history ?? new SyncHistory(sources.clock);
  const secondsSince = agesNow(sources.clock);
  const evidence = { ...sources, history, secondsSince };
  const problems = problemsOf(evidence);
  const verdict = verdictOf(problems, evidence);
  const choice = view?.iptables?.choice;
  return {
    apiVersion,
    kind: "Status",
    verdict,
    summary: summaryOf(verdict, problems, counts, evidence),
    problems,
    node: { name: config.nodeName, isEligible: health.report().isNodeEligible },
    mode: config.mode,
    observeOnly: config.observeOnly,
    ipFamilies: view?.families ?? [],
    scheduler: config.scheduler,
    source: sourceOf(config, apiContact, secondsSince),
    ...syncsOf(history, secondsSince),
    counts,
    invalidObjects: invalidObjects.slice(0, maxListed),
    ...troublesOf(history, sources.clock.monotonicMs(), secondsSince, maxListed),
    ...(choice === undefined
      ? {}
      : {
          iptables: {
            backend: choice.backend,
            reason: choice.reason,
            ...(choice.warning === undefined ? {} : { warning: choice.warning }),
          },
        }),
    versions: { program: version, nodeJs: process.versions.node, kernel: release() },
    process: { pid: process.pid, uptimeSeconds: secondsSince(sources.startedAtMs) },
  };
}

/**
 * Explains why Services are unknown before the first sync. `served` says what is served until then.
 */
export function beforeFirstSyncText(status: StatusSources, served: string): string {
  const { clock, view } = status;
  const history = view?.history ?? new SyncHistory(clock);
  const problems = problemsOf({ ...status, history, secondsSince: agesNow(clock) });
  return `Services have not been read yet: ${problemsText(problems)}; ${served}`;
}

function sourceOf(
  { objectsFrom }: Config,
  { host, answeredAtMs, failing }: ApiContact,
  secondsSince: SecondsSince,
): Status["source"] {
  if (objectsFrom.kind === "manifests") return objectsFrom;
  return {
    kind: "cluster",
    ...(host === undefined ? {} : { server: host }),
    ...(answeredAtMs === undefined ? {} : { lastAnswerSeconds: secondsSince(answeredAtMs) }),
    ...(failing === undefined ? {} : { failingSeconds: secondsSince(failing.sinceMs) }),
  };
}

function syncsOf(
  { lastFull, lastPartial }: SyncHistory,
  secondsSince: SecondsSince,
): Pick<Status, "lastFullSync" | "lastPartialSync"> {
  const statusOfSync = ({ endedAtMs, elapsedMs }: PastSync): SyncStatus => ({
    ageSeconds: secondsSince(endedAtMs),
    durationMs: toTenth(elapsedMs),
  });
  return {
    ...(lastFull === undefined ? {} : { lastFullSync: statusOfSync(lastFull) }),
    ...(lastPartial === undefined ? {} : { lastPartialSync: statusOfSync(lastPartial) }),
  };
}

function troublesOf(
  history: SyncHistory,
  nowMs: number,
  secondsSince: SecondsSince,
  maxListed: number,
): Pick<
  Status,
  | "rejectedObjects"
  | "conflicts"
  | "backingOffRepairs"
  | "manualWeights"
  | "ignoredAnnotations"
  | "lastDrift"
> {
  const { rejections, conflicts, reverted, manualWeights, lastDrift } = history;
  const secondsUntil = (ms: number): number => Math.max(0, toTenth((ms - nowMs) / 1000));
  return {
    rejectedObjects: rejections.slice(0, maxListed).map((rejection) => ({
      subject: subjectText(rejection.subject),
      reason: rejection.reason,
      message: rejection.error.message,
      services: rejection.services,
      sinceSeconds: secondsSince(rejection.sinceMs),
      attempts: rejection.attempts,
      retryInSeconds: secondsUntil(rejection.dueMs),
    })),
    conflicts: conflicts.slice(0, maxListed).map(({ reason, service, note, remedy, sinceMs }) => ({
      reason,
      service,
      message: note,
      remedy,
      sinceSeconds: secondsSince(sinceMs),
    })),
    backingOffRepairs: reverted.slice(0, maxListed).map((conflict) => ({
      kind: conflict.kind,
      subject: subjectText(conflict.subject),
      drifts: conflict.driftCount,
      pauseSeconds: conflict.pauseMs / 1000,
      retryInSeconds: secondsUntil(conflict.pausedUntilMs),
    })),
    manualWeights: manualWeights.slice(0, maxListed).map((one) => ({
      realServer: manualWeightText(one),
      weight: one.weight,
      plannedWeight: one.plannedWeight,
    })),
    ignoredAnnotations: history.ignoredAnnotations
      .slice(0, maxListed)
      .map(({ sinceMs, ...ignored }) => ({ ...ignored, sinceSeconds: secondsSince(sinceMs) })),
    ...(lastDrift === undefined
      ? {}
      : {
          lastDrift: {
            subject: lastDrift.subject,
            action: lastDrift.detail,
            ageSeconds: secondsSince(lastDrift.atMs),
            ...(lastDrift.changedBy === undefined ? {} : { changedBy: lastDrift.changedBy }),
          },
        }),
  };
}
