import type { Clock } from "../../base/clock.ts";

/** Seconds since a monotonic time, to a tenth; never below zero. */
export type SecondsSince = (atMs: number) => number;

/** Ages as of now: all of one answer are of one moment. */
export function agesNow(clock: Pick<Clock, "monotonicMs">): SecondsSince {
  const nowMs = clock.monotonicMs();
  return (atMs) => Math.max(0, toTenth((nowMs - atMs) / 1000));
}

export function toTenth(value: number): number {
  return Math.round(value * 10) / 10;
}
