/**
 * The file that lets a drain keep its age across a restart. It is a convenience: what drains is read from the kernel, and
 * without the file a deadline counts from the restart.
 *
 * Times in it are the machine's, in milliseconds since boot (/proc/uptime): the wall clock may jump, this one does not.
 */

import type { Clock } from "../../base/clock.ts";
import { isRecord } from "../../base/is-record.ts";
import type { Logger } from "../../base/log.ts";
import type { RampStartTimes } from "../../model/slow-starts.ts";
import { type Drain, type DrainStartTimes, drainKey } from "../../reconcile/drain/drains.ts";
import {
  type BootClock,
  BootFileWriter,
  type FileContent,
  readBootFile,
  writtenByOther,
} from "./boot-file.ts";

export interface DrainStartTimesParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly bootClock: BootClock;
}

/** The oldest are recorded; the others count from a restart. Keys are at most about 110 characters. */
const maxDrains = 10_000;
/** All more have their full weight after a restart. Keys are at most about 170 characters. */
const maxRamps = 2_000;

/** The start times of drains in a file that is replaced as a whole. */
export class DrainStartTimesFile implements DrainStartTimes {
  readonly #parts: DrainStartTimesParts;
  readonly whyUnknown: string | undefined;
  readonly #beganMs: ReadonlyMap<string, number>;
  readonly #recalledRamps: ReadonlyMap<string, number>;
  /** Milliseconds since boot. At first those of the earlier run, until it is known what became of them. */
  #ramps: ReadonlyMap<string, number>;
  #drains: readonly Drain[] = [];
  readonly #writer: BootFileWriter;

  /** Reads the file. `path` empty: there is none. */
  constructor(path: string, parts: DrainStartTimesParts) {
    this.#parts = parts;
    const { content, whyUnknown } = readBootFile(path, parts.bootClock);
    const { beganMs, rampsMs } = content;
    const hasTimes = isRecord(beganMs);
    this.whyUnknown = whyUnknown ?? (hasTimes ? undefined : writtenByOther(path));
    this.#beganMs = timesFrom(beganMs, parts.bootClock);
    this.#recalledRamps = timesFrom(hasTimes ? rampsMs : {}, parts.bootClock);
    this.#ramps = this.#recalledRamps;
    const failureEvent = "Cannot save drain start times, a restart will reset drain deadlines";
    this.#writer = new BootFileWriter(path, { ...parts, failureEvent });
  }

  recall(key: string): number | undefined {
    return this.#monotonicMs(this.#beganMs.get(key));
  }

  keep(drains: Iterable<Drain>): void {
    this.#drains = [...drains];
    this.#write();
  }

  /** The same for weights that grow. */
  get ramps(): RampStartTimes {
    return {
      recall: (key) => this.#monotonicMs(this.#recalledRamps.get(key)),
      keep: (startedMs) => {
        const offsetMs = this.#bootOffsetMs();
        const times = [...startedMs].slice(0, maxRamps);
        this.#ramps = new Map(times.map(([key, ms]) => [key, Math.round(ms + offsetMs)]));
        this.#write();
      },
    };
  }

  #write(): void {
    const [drains, ramps] = [this.#drains, this.#ramps];
    this.#writer.write(() => this.#content(drains, ramps));
  }

  /** Resolves when everything given so far is in the file, or could not be written. */
  idle(): Promise<void> {
    return this.#writer.idle();
  }

  /** No drain and no ramp, no file. */
  #content(drains: readonly Drain[], ramps: ReadonlyMap<string, number>): FileContent | undefined {
    if (drains.length === 0 && ramps.size === 0) return undefined;
    const oldest = drains.toSorted((one, other) => one.sinceMs - other.sinceMs).slice(0, maxDrains);
    const offsetMs = this.#bootOffsetMs();
    const beganMs = Object.fromEntries(
      oldest.map((drain) => [drainKey(drain), Math.round(drain.sinceMs + offsetMs)]),
    );
    return { beganMs, ...(ramps.size === 0 ? {} : { rampsMs: Object.fromEntries(ramps) }) };
  }

  #monotonicMs(sinceBootMs: number | undefined): number | undefined {
    return sinceBootMs === undefined ? undefined : sinceBootMs - this.#bootOffsetMs();
  }

  /** What makes a monotonic time of this program a time since boot. */
  #bootOffsetMs(): number {
    return this.#parts.bootClock.uptimeMs() - this.#parts.clock.monotonicMs();
  }
}

/** A start that lies in the future or is not a number is left out. */
function timesFrom(content: unknown, { uptimeMs }: BootClock): ReadonlyMap<string, number> {
  const nowMs = uptimeMs();
  const beganMs = new Map<string, number>();
  for (const [key, value] of Object.entries(isRecord(content) ? content : {})) {
    if (typeof value === "number" && value >= 0 && value <= nowMs) beganMs.set(key, value);
  }
  return beganMs;
}
