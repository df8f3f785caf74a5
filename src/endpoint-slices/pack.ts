import { isDeepStrictEqual } from "node:util";
import type { EndpointGroup } from "./desired-endpoints.ts";
import type { SliceEndpoint, StoredSlice } from "./objects.ts";

/** The default of kube-controller-manager. */
export const endpointsPerSlice = 100;

/** A slice of a group with its planned endpoints. */
export interface PackedSlice {
  /** Undefined if the slice does not exist yet. */
  readonly stored?: StoredSlice;
  readonly endpoints: readonly SliceEndpoint[];
  /** Whether the endpoints differ from the stored ones. */
  readonly isChanged: boolean;
}

interface Draft {
  readonly stored?: StoredSlice;
  readonly endpoints: SliceEndpoint[];
  isChanged: boolean;
}

/**
 * Packs a group's endpoints into slices, so that few slices change. Existing endpoints stay in their slice. New
 * endpoints first fill slices that are written anyway, because they changed or `mustWrite` returns true. The rest are
 * added to the fullest slice with enough space, or to new slices. Slices are never merged, because that would cause
 * unnecessary writes. Pure.
 */
export function pack(
  group: EndpointGroup,
  stored: readonly StoredSlice[],
  mustWrite: (slice: StoredSlice) => boolean,
): readonly PackedSlice[] {
  const missing = new Map(group.endpoints);
  const drafts = stored.map((slice) => keepEndpoints(slice, missing));
  const rest = [...missing.values()];
  const written = drafts.filter(
    ({ stored: slice, isChanged }) => isChanged || (slice !== undefined && mustWrite(slice)),
  );
  for (const draft of byFullness(written)) fill(draft, rest);
  while (rest.length >= endpointsPerSlice) drafts.push(newSlice(rest));
  if (rest.length > 0) placeTogether(drafts, rest);
  return drafts;
}

/** Returns a slice's endpoints that are still desired, with their current fields, and removes them from `missing`. */
function keepEndpoints(stored: StoredSlice, missing: Map<string, SliceEndpoint>): Draft {
  const endpoints: SliceEndpoint[] = [];
  let isChanged = false;
  for (const before of stored.endpoints) {
    const wanted = endpoints.length < endpointsPerSlice ? missing.get(before.pod) : undefined;
    if (wanted === undefined || !isDeepStrictEqual(before, wanted)) isChanged = true;
    if (wanted === undefined) continue;
    missing.delete(before.pod);
    endpoints.push(wanted);
  }
  return { stored, endpoints, isChanged };
}

/** Sorts the fullest slice first, so that slices without endpoints stay empty and can be deleted. */
function byFullness(drafts: readonly Draft[]): readonly Draft[] {
  return drafts.toSorted((one, other) => other.endpoints.length - one.endpoints.length);
}

function fill(draft: Draft, rest: SliceEndpoint[]): void {
  const taken = rest.splice(0, endpointsPerSlice - draft.endpoints.length);
  draft.endpoints.push(...taken);
  draft.isChanged ||= taken.length > 0;
}

function newSlice(rest: SliceEndpoint[]): Draft {
  return { endpoints: rest.splice(0, endpointsPerSlice), isChanged: true };
}

/** Puts all remaining endpoints into the fullest slice with enough space, or into a new slice. */
function placeTogether(drafts: Draft[], rest: SliceEndpoint[]): void {
  const roomy = drafts.filter(
    ({ endpoints }) => endpoints.length + rest.length <= endpointsPerSlice && endpoints.length > 0,
  );
  const [fullest] = byFullness(roomy);
  if (fullest === undefined) drafts.push(newSlice(rest));
  else fill(fullest, rest);
}
