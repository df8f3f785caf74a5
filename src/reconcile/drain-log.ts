/** Starts and ends of drains, told to the operator. */
import type { Logger, LogKeys } from "../base/log.ts";
import { realServerKey } from "../state/real-server.ts";
import type { Drain, DrainEnd, DrainStart } from "./drains.ts";

/** Lines of one pass at every verbosity; the others are there from 2 on. */
const maxTold = 20;

export interface Begun {
  readonly drain: Drain;
  readonly reason: DrainStart;
}

export interface Ended {
  readonly drain: Drain;
  readonly reason: DrainEnd;
}

export function tellBegun(log: Logger, begun: readonly Begun[]): void {
  const lines = begun.map(({ drain, reason }) => ({ ...subjectOf(drain), reason }));
  tellEach(log, "Real server drains", lines);
}

/** `nowMs`: monotonic. */
export function tellEnded(log: Logger, ended: readonly Ended[], nowMs: number): void {
  const lines = ended.map(({ drain, reason }) => ({
    ...subjectOf(drain),
    reason,
    elapsedSeconds: Number(((nowMs - drain.sinceMs) / 1000).toFixed(1)),
  }));
  tellEach(log, "Real server drains no more", lines);
}

function subjectOf({ virtualServerKey, realServer }: Drain): LogKeys {
  return { virtualServer: virtualServerKey, realServer: realServerKey(realServer) };
}

function tellEach(log: Logger, event: string, lines: readonly LogKeys[]): void {
  for (const keys of lines.slice(0, maxTold)) log.info(event, keys);
  const others = lines.slice(maxTold);
  for (const keys of others) log.verbose(2, event, keys);
  if (others.length > 0) {
    log.info("Similar lines are told from verbosity 2 on", { of: event, count: others.length });
  }
}
