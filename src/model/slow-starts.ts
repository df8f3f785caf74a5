import type { EndpointSliceRecord, ServiceName } from "../api/objects.ts";
import { earliest } from "../base/earliest.ts";
import type { IpAddress } from "../base/ip.ts";
import { type ServiceAddress, serviceAddress } from "../base/service-name.ts";
import { rampSteps } from "./tuning.ts";

/**
 * Records when slow starts (ramps) began, for the program's next run. Times are monotonic milliseconds of the current
 * run.
 */
export interface RampStartTimes {
  /** Returns the start time of a ramp that an earlier run recorded. Undefined if there is none. */
  recall(key: ServiceAddress): number | undefined;
  /** Replaces everything recorded before. Returns without waiting and never throws. */
  keep(startedMs: ReadonlyMap<ServiceAddress, number>): void;
}

export const noRampStartTimes: RampStartTimes = { recall: () => undefined, keep() {} };

interface ServiceRamps {
  /** Endpoints that were ready at the last call of `note`. */
  readonly known: ReadonlySet<IpAddress>;
  /** When the ramp of each new endpoint began. */
  readonly startedMs: ReadonlyMap<IpAddress, number>;
  readonly periodMs: number;
  /** When the first of these ramps reaches its next step. Undefined if no endpoint is new. */
  readonly nextStepMs: number | undefined;
}

/**
 * Records which endpoints of Services with a slow start are new, and since when. An endpoint is new if it becomes ready
 * while others are ready. A Service's first endpoints and those present at startup are not new.
 */
export class SlowStarts {
  readonly #recall: RampStartTimes["recall"];
  readonly #services = new Map<ServiceName, ServiceRamps>();
  /** Services with new endpoints, usually few. */
  readonly #ramping = new Map<ServiceName, ServiceRamps>();
  #isChanged = false;

  constructor(recall: RampStartTimes["recall"]) {
    this.#recall = recall;
  }

  /** Records the ready endpoints of a Service that is about to be planned. `periodMs` 0 means no slow start. */
  note(
    service: ServiceName,
    slices: Iterable<EndpointSliceRecord>,
    { periodMs, nowMs }: { readonly periodMs: number; readonly nowMs: number },
  ): void {
    const before = this.#services.get(service);
    if (periodMs === 0) {
      this.#isChanged ||= (before?.startedMs.size ?? 0) > 0;
      this.#services.delete(service);
      this.#ramping.delete(service);
      return;
    }
    const known = readyAddresses(slices);
    const begun = [...known].flatMap((address): readonly (readonly [IpAddress, number])[] => {
      const sinceMs = this.#startOf(service, address, before, nowMs);
      return sinceMs === undefined || sinceMs + periodMs <= nowMs ? [] : [[address, sinceMs]];
    });
    const startedMs = new Map(begun);
    const nextStepMs = earliest(
      [...startedMs.values()].map((sinceMs) => nextStepOf(nowMs - sinceMs, periodMs) + sinceMs),
    );
    this.#isChanged ||= !sameTimes(startedMs, before?.startedMs);
    const ramps = { known, startedMs, periodMs, nextStepMs };
    this.#services.set(service, ramps);
    if (startedMs.size > 0) this.#ramping.set(service, ramps);
    else this.#ramping.delete(service);
  }

  /** Current step, from 1 to less than `rampSteps`. Undefined if the endpoint is not new. */
  stepOf(service: ServiceName, address: IpAddress, nowMs: number): number | undefined {
    const ramps = this.#services.get(service);
    const sinceMs = ramps?.startedMs.get(address);
    return ramps === undefined || sinceMs === undefined
      ? undefined
      : stepAt(nowMs - sinceMs, ramps.periodMs);
  }

  /** When the next weight changes. Undefined if no endpoint is new. */
  get nextStepMs(): number | undefined {
    return earliest([...this.#ramping.values()].map(({ nextStepMs }) => nextStepMs));
  }

  /** Services with a weight that must change now. */
  due(nowMs: number): readonly ServiceName[] {
    return [...this.#ramping]
      .filter(([, { nextStepMs }]) => nextStepMs !== undefined && nextStepMs <= nowMs)
      .map(([service]) => service);
  }

  /** The start of every current ramp, for the record on disk. Undefined if unchanged since the last call. */
  takeStarted(): ReadonlyMap<ServiceAddress, number> | undefined {
    if (!this.#isChanged) return undefined;
    this.#isChanged = false;
    const all = [...this.#ramping].flatMap(([service, { startedMs }]) =>
      [...startedMs].map(
        ([address, sinceMs]) => [serviceAddress(service, address), sinceMs] as const,
      ),
    );
    return new Map(all);
  }

  #startOf(
    service: ServiceName,
    address: IpAddress,
    before: ServiceRamps | undefined,
    nowMs: number,
  ): number | undefined {
    if (before === undefined) return this.#recall(serviceAddress(service, address));
    if (before.known.has(address)) return before.startedMs.get(address);
    return before.known.size === 0 ? undefined : nowMs;
  }
}

function readyAddresses(slices: Iterable<EndpointSliceRecord>): ReadonlySet<IpAddress> {
  const addresses = new Set<IpAddress>();
  for (const { endpoints } of slices) {
    for (const { isReady, address } of endpoints) if (isReady) addresses.add(address);
  }
  return addresses;
}

/** The ramp starts at step 1 and reaches `rampSteps` at the end of the period. */
function stepAt(elapsedMs: number, periodMs: number): number {
  return 1 + Math.floor(((rampSteps - 1) * elapsedMs) / periodMs);
}

function nextStepOf(elapsedMs: number, periodMs: number): number {
  return Math.ceil((stepAt(elapsedMs, periodMs) * periodMs) / (rampSteps - 1));
}

function sameTimes(
  one: ReadonlyMap<IpAddress, number>,
  other: ReadonlyMap<IpAddress, number> = new Map(),
): boolean {
  if (one.size !== other.size) return false;
  return [...one].every(([address, sinceMs]) => other.get(address) === sinceMs);
}
