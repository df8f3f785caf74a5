/** Logs the starts and ends of drains. */
import type { Logger, LogKeys } from "../../base/log.ts";
import { realServerKey } from "../../state/real-server.ts";
import type { DrainStartReason } from "../change-plan.ts";
import type { Drain, DrainEnd } from "./drains.ts";

export interface Begun {
  readonly drain: Drain;
  readonly reason: DrainStartReason;
}

export interface Ended {
  readonly drain: Drain;
  readonly reason: DrainEnd;
}

export function logBegun(log: Logger, begun: readonly Begun[]): void {
  for (const { drain, reason } of begun) {
    log.info("Real server draining", { ...subjectOf(drain), reason });
  }
}

/** `nowMs` is monotonic. */
export function logEnded(log: Logger, ended: readonly Ended[], nowMs: number): void {
  for (const { drain, reason } of ended) {
    const elapsedSeconds = Number(((nowMs - drain.sinceMs) / 1000).toFixed(1));
    log.info("Real server drain ended", { ...subjectOf(drain), reason, elapsedSeconds });
  }
}

function subjectOf({ virtualServerKey, realServer }: Drain): LogKeys {
  return { virtualServer: virtualServerKey, realServer: realServerKey(realServer) };
}
