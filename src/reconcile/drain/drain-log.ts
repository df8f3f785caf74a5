/** Logs the starts and ends of drains. */
import type { Logger, LogKeys } from "../../base/log.ts";
import { realServerKey } from "../../state/real-server.ts";
import type { DrainStartReason } from "../change-plan.ts";
import type { Drain, DrainEnd } from "./drains.ts";

/** Maximum number of lines per pass at default verbosity. At verbosity 2 and above, all lines are logged. */
const maxLines = 20;

export interface Begun {
  readonly drain: Drain;
  readonly reason: DrainStartReason;
}

export interface Ended {
  readonly drain: Drain;
  readonly reason: DrainEnd;
}

export function logBegun(log: Logger, begun: readonly Begun[]): void {
  const lines = begun.map(({ drain, reason }) => ({ ...subjectOf(drain), reason }));
  logEach(log, "Real server draining", lines);
}

/** `nowMs` is monotonic. */
export function logEnded(log: Logger, ended: readonly Ended[], nowMs: number): void {
  const lines = ended.map(({ drain, reason }) => ({
    ...subjectOf(drain),
    reason,
    elapsedSeconds: Number(((nowMs - drain.sinceMs) / 1000).toFixed(1)),
  }));
  logEach(log, "Real server drain ended", lines);
}

function subjectOf({ virtualServerKey, realServer }: Drain): LogKeys {
  return { virtualServer: virtualServerKey, realServer: realServerKey(realServer) };
}

function logEach(log: Logger, event: string, lines: readonly LogKeys[]): void {
  for (const keys of lines.slice(0, maxLines)) log.info(event, keys);
  const others = lines.slice(maxLines);
  for (const keys of others) log.verbose(2, event, keys);
  if (others.length > 0) {
    log.info("Suppressing similar messages below -v=2", { of: event, count: others.length });
  }
}
