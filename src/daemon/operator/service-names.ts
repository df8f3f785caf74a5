import type { ServiceName } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import { sortInSteps } from "../../base/sort-in-steps.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { ServicesQuery } from "./answers.ts";

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
