import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../api/objects.ts";
import type { IpFamily } from "../base/ip.ts";
import { type Limits, noLimits } from "./limits.ts";
import { type LimitedService, Shares } from "./shares.ts";

/** What changed since the last time it was asked. */
export interface PendingChanges {
  readonly services: readonly ServiceName[];
  /** When the changes began in the cluster, where that is known. */
  readonly triggers: readonly Trigger[];
}

/** The beginning of a change of endpoints. */
export interface Trigger {
  readonly family: IpFamily;
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
}

/**
 * Holds the newest Services and slices and remembers which Services were touched. Ten changes of one
 * Service between two syncs are one entry; no event is kept.
 */
export class ChangeTracker {
  readonly #services = new Map<ServiceName, ServiceRecord>();
  readonly #slices = new Map<ServiceName, readonly EndpointSliceRecord[]>();
  #touched = new Set<ServiceName>();
  /** By family and Service. */
  #triggers = new Map<string, Trigger[]>();
  readonly #startedAtMs: number;
  readonly #shares: Shares;

  /** `startedAtMs`: triggers before the start of the program say nothing about its speed. */
  constructor(startedAtMs: number, limits: Limits = noLimits) {
    this.#startedAtMs = startedAtMs;
    this.#shares = new Shares(limits, (name) => {
      const service = this.#services.get(name);
      return service && { service, slices: this.#slices.get(name) ?? [] };
    });
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    const name = (current ?? previous)?.name;
    if (name === undefined) return;
    if (current === undefined) this.#services.delete(name);
    else this.#services.set(name, current);
    this.#touched.add(name);
  }

  /** A slice may move to another Service: both are touched. */
  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    if (previous !== undefined && previous.service !== current?.service) this.#dropSlice(previous);
    if (current === undefined) return;
    const others = this.#slicesBut(current);
    // Spread, a list has room for sixteen more.
    this.#slices.set(current.service, others.length === 0 ? [current] : [...others, current]);
    this.#touched.add(current.service);
    this.#noteTrigger(current);
  }

  /** Every Service counts as touched: something that concerns all of them changed. */
  touchAll(): void {
    for (const name of this.#services.keys()) this.#touched.add(name);
  }

  /** This Service counts as touched. */
  touch(name: ServiceName): void {
    this.#touched.add(name);
  }

  /** The Services of which this is true count as touched. */
  touchWhere(concerns: (service: ServiceRecord) => boolean): void {
    for (const [name, service] of this.#services) if (concerns(service)) this.#touched.add(name);
  }

  /** Hands over what is pending and starts again. */
  take(): PendingChanges {
    for (const name of this.#shares.update(this.#touched)) this.#touched.add(name);
    const services = [...this.#touched];
    const triggers = [...this.#triggers.values()].flat();
    this.#touched = new Set();
    this.#triggers = new Map();
    return { services, triggers };
  }

  /** Hands over those touched Services that are here with a slice, and of which `isWanted` is true; the others stay pending. */
  takeListed(isWanted: (service: ServiceRecord) => boolean): readonly ServiceName[] {
    const taken: ServiceName[] = [];
    for (const name of this.#touched) {
      const service = this.#services.get(name);
      if (service === undefined || !this.#slices.has(name) || !isWanted(service)) continue;
      taken.push(name);
    }
    for (const name of taken) this.#touched.delete(name);
    for (const name of this.#shares.update(taken)) this.#touched.add(name);
    return taken;
  }

  get pendingCount(): number {
    return this.#touched.size;
  }

  get serviceCount(): number {
    return this.#services.size;
  }

  /** Counted each time. */
  get sliceCount(): number {
    let count = 0;
    for (const slices of this.#slices.values()) count += slices.length;
    return count;
  }

  serviceNames(): Iterable<ServiceName> {
    return this.#services.keys();
  }

  /** What is served of it, see {@link Shares}; as of the last {@link take}. */
  service(name: ServiceName): ServiceRecord | undefined {
    const service = this.#services.get(name);
    return service && (this.#shares.of(name)?.service ?? service);
  }

  /** Likewise. */
  slicesOf(name: ServiceName): Iterable<EndpointSliceRecord> {
    return this.#shares.of(name)?.slices ?? this.#slices.get(name) ?? [];
  }

  /** Services of which a part is not served. */
  limitedServices(): Iterable<LimitedService> {
    return this.#shares.limited();
  }

  /** A list and no map: nearly every Service has one slice. */
  #slicesBut({ service, name }: EndpointSliceRecord): readonly EndpointSliceRecord[] {
    return (this.#slices.get(service) ?? []).filter((slice) => slice.name !== name);
  }

  #dropSlice(slice: EndpointSliceRecord): void {
    const others = this.#slicesBut(slice);
    if (others.length === 0) this.#slices.delete(slice.service);
    else this.#slices.set(slice.service, others);
    this.#touched.add(slice.service);
    this.#triggers.delete(triggerKey(slice));
  }

  #noteTrigger(slice: EndpointSliceRecord): void {
    const { family, triggeredAtMs: timeMs } = slice;
    if (timeMs === undefined || timeMs < this.#startedAtMs) return;
    const key = triggerKey(slice);
    this.#triggers.set(key, [...(this.#triggers.get(key) ?? []), { family, timeMs }]);
  }
}

function triggerKey({ family, service }: EndpointSliceRecord): string {
  return `${family} ${service}`;
}
