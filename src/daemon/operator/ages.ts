import type { Clock } from "../../base/clock.ts";

/** Seconds since a monotonic time, rounded to a tenth and never negative. */
export type SecondsSince = (atMs: number) => number;

/** Returns a function that computes ages relative to now, so that all ages in one answer refer to the same moment. */
export function agesNow(clock: Pick<Clock, "monotonicMs">): SecondsSince {
  const nowMs = clock.monotonicMs();
  return (atMs) => Math.max(0, toTenth((nowMs - atMs) / 1000));
}

export function toTenth(value: number): number {
  return Math.round(value * 10) / 10;
}
