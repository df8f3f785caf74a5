/** What rows of Services have in common, whatever the mode. */

import type { ServiceRow, ServicesQuery } from "../../answer/answers.ts";
import type { ServiceName } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import { sortInSteps } from "../../base/sort-in-steps.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { LostTo } from "../../plan/claims/claim.ts";

/** The field of a row that says who has the address, and why; none where the row's own Service has it. */
export function claimedBy(lost: LostTo | undefined): Pick<ServiceRow, "claimedBy"> {
  return lost === undefined ? {} : { claimedBy: { ...namesOf(lost.service), claim: lost.reason } };
}

/** The reason of a row whose address another Service has. */
export const lostReason = "claimed-by-another-service";

/** Namespace and name. */
export function namesOf(service: ServiceName): Pick<ServiceRow, "namespace" | "name"> {
  const [namespace = "", name = ""] = service.split("/");
  return { namespace, name };
}

/** Names of the Services that are asked for, in their order. */
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
