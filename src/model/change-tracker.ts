import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../api/objects.ts";
import type { IpFamily } from "../base/ip.ts";
import { type FamilyServiceKey, familyServiceKey } from "../base/service-name.ts";
import { type Limits, noLimits } from "./limits.ts";
import { type LimitedService, Shares } from "./shares.ts";

/** A Service and its slices at one moment, without what exceeds a limit; see {@link Shares}. */
export interface ServiceObjects {
  readonly name: ServiceName;
  /** Undefined if the Service was deleted. */
  readonly service: ServiceRecord | undefined;
  readonly slices: Iterable<EndpointSliceRecord>;
}

/** The changes that one update planned. */
export interface PendingChanges {
  readonly services: readonly ServiceName[];
  /** When the changes happened in the cluster, if known. */
  readonly triggers: readonly Trigger[];
}

/** The changes since the last call of `take`. */
export interface TakenChanges extends Pick<PendingChanges, "triggers"> {
  readonly services: readonly ServiceObjects[];
}

/** The start of an endpoint change. */
export interface Trigger {
  readonly family: IpFamily;
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
}

/**
 * Keeps the latest Services and slices, and records which Services were touched (must be planned again). Several changes
 * to one Service between two syncs count as one; the individual changes are not stored.
 */
export class ChangeTracker {
  readonly #services = new Map<ServiceName, ServiceRecord>();
  readonly #slices = new Map<ServiceName, readonly EndpointSliceRecord[]>();
  #touched = new Set<ServiceName>();
  #triggers = new Map<FamilyServiceKey, Trigger[]>();
  readonly #startedAtMs: number;
  readonly #shares: Shares;

  /** Ignores triggers before `startedAtMs`, because they would inflate the measured latency. */
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

  /** Records a change of a slice. If the slice moves to another Service, both Services are touched. */
  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    if (previous !== undefined && previous.service !== current?.service) this.#dropSlice(previous);
    if (current === undefined) return;
    const others = this.#slicesBut(current);
    // A single slice is not copied with a spread, because a spread reserves space for 16 more elements.
    this.#slices.set(current.service, others.length === 0 ? [current] : [...others, current]);
    this.#touched.add(current.service);
    this.#noteTrigger(current);
  }

  touchAll(): void {
    for (const name of this.#services.keys()) this.#touched.add(name);
  }

  touch(name: ServiceName): void {
    this.#touched.add(name);
  }

  /** Marks all Services for which `concerns` returns true as touched. */
  touchWhere(concerns: (service: ServiceRecord) => boolean): void {
    for (const [name, service] of this.#services) if (concerns(service)) this.#touched.add(name);
  }

  /**
   * Returns the pending changes and clears them. Planning them takes several turns of the event loop. Objects that
   * arrive meanwhile are not part of the result, because the plan's options may not reserve their addresses yet, and
   * limits were not applied to them.
   */
  take(): TakenChanges {
    for (const name of this.#shares.update(this.#touched)) this.#touched.add(name);
    const services = this.#objectsOf(this.#touched);
    const triggers = [...this.#triggers.values()].flat();
    this.#touched = new Set();
    this.#triggers = new Map();
    return { services, triggers };
  }

  /**
   * Returns the touched Services for which `isWanted` returns true and that already have a slice. The others stay
   * pending. See {@link take}.
   */
  takeListed(isWanted: (service: ServiceRecord) => boolean): readonly ServiceObjects[] {
    const taken: ServiceName[] = [];
    for (const name of this.#touched) {
      const service = this.#services.get(name);
      if (service === undefined || !this.#slices.has(name) || !isWanted(service)) continue;
      taken.push(name);
    }
    for (const name of taken) this.#touched.delete(name);
    for (const name of this.#shares.update(taken)) this.#touched.add(name);
    return this.#objectsOf(taken);
  }

  /** The objects of all Services without pending changes. */
  unchanged(): readonly ServiceObjects[] {
    return this.unchangedOf([...this.#services.keys()]);
  }

  get pendingCount(): number {
    return this.#touched.size;
  }

  get serviceCount(): number {
    return this.#services.size;
  }

  /** The number of known slices, counted on each access. */
  get sliceCount(): number {
    let count = 0;
    for (const slices of this.#slices.values()) count += slices.length;
    return count;
  }

  serviceNames(): Iterable<ServiceName> {
    return this.#services.keys();
  }

  /** The objects of those Services that have no pending changes. */
  unchangedOf(names: readonly ServiceName[]): readonly ServiceObjects[] {
    return this.#objectsOf(names.filter((name) => !this.#touched.has(name)));
  }

  #objectsOf(names: Iterable<ServiceName>): readonly ServiceObjects[] {
    return Array.from(names, (name) => ({
      name,
      service: this.service(name),
      slices: this.slicesOf(name),
    }));
  }

  /** The served part of a Service at the last {@link take}; see {@link Shares}. */
  service(name: ServiceName): ServiceRecord | undefined {
    const service = this.#services.get(name);
    return service && (this.#shares.of(name)?.service ?? service);
  }

  /** The served part of a Service's slices at the last {@link take}; see {@link Shares}. */
  slicesOf(name: ServiceName): Iterable<EndpointSliceRecord> {
    return this.#shares.of(name)?.slices ?? this.#slices.get(name) ?? [];
  }

  /** Services that are only partly served because of a limit. */
  limitedServices(): Iterable<LimitedService> {
    return this.#shares.limited();
  }

  /**
   * Returns the Service's other slices. Filtering a list is fast enough, because nearly every Service has one slice.
   */
  #slicesBut({ service, name }: EndpointSliceRecord): readonly EndpointSliceRecord[] {
    return (this.#slices.get(service) ?? []).filter((slice) => slice.name !== name);
  }

  #dropSlice(slice: EndpointSliceRecord): void {
    const others = this.#slicesBut(slice);
    if (others.length === 0) this.#slices.delete(slice.service);
    else this.#slices.set(slice.service, others);
    this.#touched.add(slice.service);
    this.#triggers.delete(familyServiceKey(slice.family, slice.service));
  }

  #noteTrigger(slice: EndpointSliceRecord): void {
    const { family, service, triggeredAtMs: timeMs } = slice;
    if (timeMs === undefined || timeMs < this.#startedAtMs) return;
    const key = familyServiceKey(family, service);
    this.#triggers.set(key, [...(this.#triggers.get(key) ?? []), { family, timeMs }]);
  }
}
