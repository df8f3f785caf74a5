/** Fields of Service rows that all modes share. */

import type { ServiceRow, ServicesQuery } from "../../answer/rows.ts";
import type { ServiceName } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import { sortInSteps } from "../../base/sort-in-steps.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { LostTo } from "../../plan/claims/claim.ts";

/**
 * A row's `claimedBy` field: the Service that owns the address, and why it does. Empty if the row's own Service owns
 * the address.
 */
export function claimedBy(lost: LostTo | undefined): Pick<ServiceRow, "claimedBy"> {
  return lost === undefined ? {} : { claimedBy: { ...namesOf(lost.service), claim: lost.reason } };
}

/** Namespace and name. */
export function namesOf(service: ServiceName): Pick<ServiceRow, "namespace" | "name"> {
  const [namespace = "", name = ""] = service.split("/");
  return { namespace, name };
}

/** Sorted names of the Services that the query selects. */
export async function serviceNames(
  known: { serviceNames(): Iterable<ServiceName> },
  clock: Clock,
  { namespace, name }: ServicesQuery,
): Promise<readonly ServiceName[]> {
  if (namespace !== undefined && name !== undefined) return [`${namespace}/${name}`];
  const names = [...known.serviceNames()];
  const isAsked = (service: ServiceName): boolean =>
    (namespace === undefined || service.startsWith(`${namespace}/`)) &&
    (name === undefined || service.endsWith(`/${name}`));
  const isAll = namespace === undefined && name === undefined;
  return await inSlices(clock, sortInSteps(isAll ? names : names.filter(isAsked)));
}
