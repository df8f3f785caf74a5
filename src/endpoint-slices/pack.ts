import { isDeepStrictEqual } from "node:util";
import type { EndpointGroup } from "./desired-endpoints.ts";
import type { SliceEndpoint, StoredSlice } from "./objects.ts";

/** As many as kube-controller-manager puts into a slice by default. */
export const endpointsPerSlice = 100;

/** A slice of a group with the endpoints that it shall hold. */
export interface PackedSlice {
  /** Undefined for a slice to create. */
  readonly stored?: StoredSlice;
  readonly endpoints: readonly SliceEndpoint[];
  /** Its endpoints differ from the stored ones. */
  readonly isChanged: boolean;
}

interface Draft {
  readonly stored?: StoredSlice;
  readonly endpoints: SliceEndpoint[];
  isChanged: boolean;
}

/**
 * Puts the endpoints of a group into slices so that few slices change: each endpoint stays where it is; new ones
 * go into slices that change anyway (`mustWrite`: for another reason), then all into the fullest other slice that
 * has room for all, else into new slices. Slices are not merged: that would write without need. Pure.
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

/** The endpoints of a slice that are wanted, as they shall be now; what is taken is no longer missing. */
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

/** The fullest first, so that slices which lost all their endpoints stay empty and can go. */
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

/** Into the fullest slice that has room for all of them; a new one where none has. */
function placeTogether(drafts: Draft[], rest: SliceEndpoint[]): void {
  const roomy = drafts.filter(
    ({ endpoints }) => endpoints.length + rest.length <= endpointsPerSlice && endpoints.length > 0,
  );
  const [fullest] = byFullness(roomy);
  if (fullest === undefined) drafts.push(newSlice(rest));
  else fill(fullest, rest);
}
