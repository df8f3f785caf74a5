/**
 * In modes without virtual servers, searches the objects for the Services that claim an address and port. Read-only.
 */

import type { Destination } from "../../answer/answers.ts";
import { lostReason } from "../../answer/reasons.ts";
import type { ServiceRow } from "../../answer/rows.ts";
import type { ServiceName } from "../../api/objects.ts";
import { familyOf, type IpAddress, isLoopback } from "../../base/ip.ts";
import { inSlices } from "../../base/time-slice.ts";
import { servicePortsOf } from "../../model/service-ports.ts";
import type { LostTo } from "../../plan/claims/claim.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import { absenceOf } from "./absence.ts";
import type { ObjectsView } from "./daemon-view.ts";
import { claimedBy } from "./row-fields.ts";
import { rowOf } from "./service-rows.ts";
import { findFrontends, type WantedFrontend } from "./wanted-frontends.ts";

/**
 * All addresses and ports of one Service, except loopback addresses. A service port that is served on every address of
 * the node has the addresses in `nodeAddresses`.
 */
export function destinationsOf(
  view: ObjectsView,
  service: ServiceName,
  nodeAddresses: readonly IpAddress[],
): readonly Destination[] {
  const record = view.objects.service(service);
  if (record === undefined) return [];
  return view.families.flatMap((family) => {
    const everywhere = nodeAddresses.filter((address) => familyOf(address) === family);
    return servicePortsOf(record, family).flatMap((servicePort) =>
      view.frontends(servicePort, family).flatMap(({ address: one, port }) => {
        const { protocol } = servicePort;
        const addresses = one === undefined ? everywhere : [one];
        return addresses
          .filter((address) => !isLoopback(address))
          .map((address) => ({ protocol, address, port }));
      }),
    );
  });
}

/**
 * Rows of the Services that claim the destinations. For each destination, the owner comes first, and the others
 * follow in `order`. No Service owns a loopback address, so the first in `order` is shown as its owner.
 */
export async function rowsOfClaims(
  view: ObjectsView,
  destinations: readonly Destination[],
  order: (one: WantedFrontend, other: WantedFrontend) => number,
): Promise<readonly ServiceRow[]> {
  const context = { view, absence: absenceOf(view.history) };
  const query = { hasEndpoints: true, hasConnections: false };
  const rows: ServiceRow[] = [];
  for (const destination of destinations) {
    const { address } = destination;
    const names = view.objects.serviceNames();
    const claims = await inSlices(view.clock, findFrontends(view, names, destination));
    const lostTo = ({ servicePort }: WantedFrontend): LostTo | undefined =>
      view.lostTo(servicePort, virtualServerKey(destination));
    const isLost = (one: WantedFrontend): number => Number(lostTo(one) !== undefined);
    const sorted = claims.toSorted(
      (one, other) => isLost(one) - isLost(other) || order(one, other),
    );
    for (const [index, claim] of sorted.entries()) {
      const lost = index === 0 ? {} : { reason: lostReason };
      rows.push({
        ...rowOf(claim, context, query),
        ...{ ...lost, ...claimedBy(lostTo(claim)), address },
      });
    }
  }
  return rows;
}
