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

/** Everything that determines the slices of one Service. */
export interface SliceSituation {
  readonly name: ServiceName;
  /** Undefined if the Service was deleted or has no selector. */
  readonly service: SelectingService | undefined;
  /** Pods of the Service's namespace. Other Pods are ignored. */
  readonly pods: Iterable<PodRecord>;
  /** All slices of the Service, regardless of their manager. */
  readonly stored: readonly StoredSlice[];
  /** Whether a slice with this `namespace/name` exists. */
  readonly isNameTaken: (name: string) => boolean;
  /** Undefined if the zone is unknown. */
  readonly zoneOf?: ZoneOf;
}

/** The writes to perform. Empty if every slice is up to date. */
export interface SlicePlan {
  readonly creates: readonly NewSlice[];
  readonly updates: readonly SliceUpdate[];
  readonly deletes: readonly StoredSlice[];
  /**
   * The other manager of the Service's slices. Empty if a slice does not name its manager. Undefined if there is none.
   */
  readonly managedBy?: string;
}

export interface SliceUpdate {
  readonly stored: StoredSlice;
  readonly content: SliceContent;
}

/**
 * Plans one Service's slices. If another manager has slices for the Service, the Service is left to that manager:
 * kube-ipvs's slices are deleted as soon as the other slices have endpoints, and other slices are never changed. Pure.
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
  /** The slices in this family that kube-ipvs manages. */
  readonly stored: readonly StoredSlice[];
}

/** A packed slice and the ports of its group. */
interface PlannedSlice extends PackedSlice {
  readonly ports: readonly SlicePort[];
}

function planFamily({ isNameTaken }: SliceSituation, family: FamilySituation): SlicePlan {
  const { service } = family;
  const slices = plannedSlices(family);
  /** Slices without planned endpoints. They are reused before new slices are created. */
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
 * Generates unused names, each once. Numbers make them deterministic: if the response to a create is lost and the
 * create is repeated, the API server rejects the second one.
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

/** The planned slices. A slice is empty only if the Service has no endpoints. */
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

/** Slices inherit the labels of their Service, so that the same selectors find both. */
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
