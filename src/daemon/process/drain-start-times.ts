/**
 * The state file sections that preserve when drains and ramps began. The file is optional: draining real servers are
 * read from the kernel, but without the file their deadlines start over at a restart.
 *
 * Times in the file are milliseconds since boot (/proc/uptime), because the wall clock may jump.
 */
import type { Clock } from "../../base/clock.ts";
import type { RampStartTimes } from "../../model/slow-starts.ts";
import { type DrainStartTimes, drainKey } from "../../reconcile/drain/drains.ts";
import { type BootClock, numbersIn, type StateFile } from "./state-file.ts";

/**
 * Maximum number of drains to record, oldest first, so that the file stays small: keys have up to about 110 characters.
 * The deadlines of all other drains start over at a restart.
 */
const maxDrains = 10_000;
/**
 * Maximum number of ramps to record, so that the file stays small: keys have up to about 170 characters. Real servers
 * whose ramps are not recorded have their full weight after a restart.
 */
const maxRamps = 2_000;

export interface StartTimeClocks {
  readonly clock: Clock;
  readonly bootClock: BootClock;
}

export function drainStartTimesIn(state: StateFile, clocks: StartTimeClocks): DrainStartTimes {
  const recalled = timesFrom(state.content["beganMs"], clocks.bootClock);
  return {
    whyUnknown: state.whyUnknown,
    recall: (key) => monotonicMs(recalled.get(key), clocks),
    keep(drains) {
      const all = [...drains];
      const beganMs = (): unknown => {
        const oldest = all.toSorted((one, other) => one.sinceMs - other.sinceMs);
        const times = oldest.map((drain) => [drainKey(drain), drain.sinceMs] as const);
        return sinceBoot(times.slice(0, maxDrains), clocks);
      };
      state.keep({ beganMs });
    },
  };
}

/** Start times of ramps, during which a real server's weight grows to its planned value. */
export function rampStartTimesIn(state: StateFile, clocks: StartTimeClocks): RampStartTimes {
  const recalled = timesFrom(state.content["rampsMs"], clocks.bootClock);
  return {
    recall: (key) => monotonicMs(recalled.get(key), clocks),
    keep(startedMs) {
      const times = [...startedMs].slice(0, maxRamps);
      state.keep({ rampsMs: () => sinceBoot(times, clocks) });
    },
  };
}

/** Returns undefined if there are no times, which removes the section. */
function sinceBoot(
  times: readonly (readonly [string, number])[],
  clocks: StartTimeClocks,
): Readonly<Record<string, number>> | undefined {
  if (times.length === 0) return undefined;
  const offsetMs = bootOffsetMs(clocks);
  return Object.fromEntries(times.map(([key, ms]) => [key, Math.round(ms + offsetMs)]));
}

function monotonicMs(sinceBootMs: number | undefined, clocks: StartTimeClocks): number | undefined {
  return sinceBootMs === undefined ? undefined : sinceBootMs - bootOffsetMs(clocks);
}

/** The difference between the time since boot and this program's monotonic time. */
function bootOffsetMs({ clock, bootClock }: StartTimeClocks): number {
  return bootClock.uptimeMs() - clock.monotonicMs();
}

/** Skips times that are in the future or not numbers. */
function timesFrom(content: unknown, { uptimeMs }: BootClock): ReadonlyMap<string, number> {
  const nowMs = uptimeMs();
  return new Map([...numbersIn(content)].filter(([, ms]) => ms >= 0 && ms <= nowMs));
}
