import { isDeepStrictEqual } from "node:util";
import type { IpFamily } from "../base/ip.ts";
import type { ServiceName } from "../base/service-name.ts";
import { endpointGroups, portsKey, type ZoneOf } from "./desired-endpoints.ts";
import {
  headlessLabel,
  type Labels,
  managedByLabel,
  type NewSlice,
  ourManagerName,
  type PodRecord,
  type SelectingService,
  type SliceContent,
  type SlicePort,
  type StoredSlice,
  serviceNameLabel,
} from "./objects.ts";
import { type PackedSlice, pack } from "./pack.ts";
import { bareName, familiesOf, podsOf } from "./selection.ts";

/** Everything that the slices of one Service depend on. */
export interface SliceSituation {
  readonly name: ServiceName;
  /** Undefined if the Service is gone or has no selector. */
  readonly service: SelectingService | undefined;
  /** Pods of its namespace; others do no harm. */
  readonly pods: Iterable<PodRecord>;
  /** All slices that name the Service, whoever manages them. */
  readonly stored: readonly StoredSlice[];
  /** Says whether any slice has this name: `namespace/name`. */
  readonly isNameTaken: (name: string) => boolean;
  /** Undefined if the zone is unknown. */
  readonly zoneOf?: ZoneOf;
}

/** What is to be written; nothing at all when everything is as it should be. */
export interface SlicePlan {
  readonly creates: readonly NewSlice[];
  readonly updates: readonly SliceUpdate[];
  readonly deletes: readonly StoredSlice[];
  /** Who manages the Service's slices instead of us; empty: a slice without a manager's name. Undefined if we manage them. */
  readonly managedBy?: string;
}

export interface SliceUpdate {
  readonly stored: StoredSlice;
  readonly content: SliceContent;
}

/**
 * Plans the slices of one Service. A Service that has slices of another manager is left to it: ours go once the
 * other one's have endpoints, and no other is touched. Pure.
 */
export function planSlices(situation: SliceSituation): SlicePlan {
  const { service, stored } = situation;
  const ours = stored.filter(({ managedBy }) => managedBy === ourManagerName);
  const theirs = stored.filter(({ managedBy }) => managedBy !== ourManagerName);
  const [other] = theirs;
  if (service === undefined) return { creates: [], updates: [], deletes: ours };
  if (other !== undefined) {
    const isServed = theirs.some(({ hasEndpoints }) => hasEndpoints);
    return { creates: [], updates: [], deletes: isServed ? ours : [], managedBy: other.managedBy };
  }
  return planOurs(situation, service, ours);
}

function planOurs(
  situation: SliceSituation,
  service: SelectingService,
  ours: readonly StoredSlice[],
): SlicePlan {
  const pods = podsOf(service, situation.pods);
  const families = familiesOf(service, pods);
  const { zoneOf = () => undefined } = situation;
  const plans = families.map((family) => {
    const stored = ours.filter((slice) => slice.family === family);
    return planFamily(situation, { service, pods, family, stored, zoneOf });
  });
  const elsewhere = ours.filter(({ family }) => family === undefined || !families.includes(family));
  return {
    creates: plans.flatMap(({ creates }) => creates),
    updates: plans.flatMap(({ updates }) => updates),
    deletes: [...elsewhere, ...plans.flatMap(({ deletes }) => deletes)],
  };
}

interface FamilySituation {
  readonly service: SelectingService;
  readonly pods: readonly PodRecord[];
  readonly family: IpFamily;
  readonly zoneOf: ZoneOf;
  /** Ours, of this family. */
  readonly stored: readonly StoredSlice[];
}

/** A packed slice with the ports of its group. */
interface PlannedSlice extends PackedSlice {
  readonly ports: readonly SlicePort[];
}

function planFamily({ isNameTaken }: SliceSituation, family: FamilySituation): SlicePlan {
  const { service } = family;
  const slices = plannedSlices(family);
  /** Slices that nothing is left for: written over before a new one is made. */
  const idle = family.stored.filter((stored) => !slices.some((slice) => slice.stored === stored));
  const names = freeNames(family, isNameTaken);
  const creates: NewSlice[] = [];
  const updates: SliceUpdate[] = [];
  for (const { stored, endpoints, ports, isChanged } of slices) {
    const content = { ...metadataOf(service), ports, endpoints };
    const target = stored ?? idle.shift();
    if (target === undefined) {
      const name = names.next().value;
      creates.push({ ...content, name, service: service.name, family: family.family });
    } else if (stored === undefined || isChanged || !hasMetadata(target, service)) {
      updates.push({ stored: target, content });
    }
  }
  return { creates, updates, deletes: idle };
}

/**
 * Free names, each once. They are not drawn by chance: a slice that was made, while its answer was lost, is
 * refused when it is made again, and never made twice.
 */
function* freeNames(
  { service, family }: FamilySituation,
  isTaken: SliceSituation["isNameTaken"],
): Generator<string, never> {
  for (let number = 0; ; number += 1) {
    const name = `${service.name}-${family.toLowerCase()}-${number}`;
    if (!isTaken(name)) yield name;
  }
}

/** The slices that shall be: none is empty, except for the one that says that there are no endpoints. */
function plannedSlices(family: FamilySituation): readonly PlannedSlice[] {
  const { service, pods, stored } = family;
  const byName = stored.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const mustWrite = (slice: StoredSlice): boolean => !hasMetadata(slice, service);
  const groups = [...endpointGroups(service, pods, family)];
  return groups.flatMap(([key, group]): readonly PlannedSlice[] => {
    const { ports } = group;
    const candidates = byName.filter((slice) => portsKey(slice.ports) === key);
    if (group.endpoints.size === 0) return [{ ...emptySlice(candidates[0]), ports }];
    const packed = pack(group, candidates, mustWrite).filter(
      ({ endpoints }) => endpoints.length > 0,
    );
    return packed.map((slice) => ({ ...slice, ports }));
  });
}

function emptySlice(stored: StoredSlice | undefined): PackedSlice {
  if (stored === undefined) return { endpoints: [], isChanged: true };
  return { stored, endpoints: [], isChanged: stored.endpoints.length > 0 };
}

function hasMetadata(slice: StoredSlice, service: SelectingService): boolean {
  const { labels, ownerUid } = metadataOf(service);
  return slice.ownerUid === ownerUid && isDeepStrictEqual(slice.labels, labels);
}

/** The labels of the Service go onto its slices, so that selectors for one find the others. */
function metadataOf(service: SelectingService): Pick<SliceContent, "labels" | "ownerUid"> {
  const { [headlessLabel]: _headless, ...inherited } = service.labels;
  const labels: Labels = {
    ...inherited,
    ...(service.isHeadless ? { [headlessLabel]: "" } : {}),
    [serviceNameLabel]: bareName(service.name),
    [managedByLabel]: ourManagerName,
  };
  return { labels, ownerUid: service.uid };
}
