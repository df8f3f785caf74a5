/**
 * In modes without virtual servers, searches the objects for the Services that claim an address and port. Read-only.
 */

import type { Destination } from "../../answer/answers.ts";
import type { ServiceRow } from "../../answer/rows.ts";
import type { ServiceName } from "../../api/objects.ts";
import { familyOf, type IpAddress, isLoopback } from "../../base/ip.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { servicePortsOf } from "../../model/service-ports.ts";
import type { LostTo } from "../../plan/claims/claim.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import { absenceOf } from "./absence.ts";
import type { ObjectsView } from "./daemon-view.ts";
import { claimedBy, lostReason } from "./row-fields.ts";
import { rowOf } from "./service-rows.ts";
import { type WantedFrontend, wantedFrontends } from "./wanted-frontends.ts";

/**
 * All addresses and ports of one Service, except loopback. `nodeAddresses` are used for service ports that are served
 * on every node address.
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

/** Finds the frontends that claim a destination. Iterates over all Services and yields after each. */
function* findClaims(
  view: ObjectsView,
  destination: Destination,
): Generator<void, readonly WantedFrontend[]> {
  const claims: WantedFrontend[] = [];
  const family = familyOf(destination.address);
  for (const service of view.objects.serviceNames()) {
    yield;
    const record = view.objects.service(service);
    // A cheap check that excludes nearly all Services.
    if (!record?.ports.some(({ port, nodePort }) => isEither(destination.port, port, nodePort))) {
      continue;
    }
    const isClaimed = servicePortsOf(record, family).some((port) => isAt(view, port, destination));
    if (!isClaimed) continue;
    for (const wanted of wantedFrontends(view, [service])) {
      const { servicePort, kind, server } = wanted;
      // A cluster IP or node port has a single row, whichever address was requested.
      const isSoleRow = kind === "cluster-ip" || kind === "node-port";
      const isAddress = isSoleRow || server.address === destination.address;
      if (isAddress && isAt(view, servicePort, destination, kind)) claims.push(wanted);
    }
  }
  return claims;
}

function isEither(wanted: number, ...ports: readonly number[]): boolean {
  return ports.includes(wanted);
}

/** Whether a service port is served at the destination. `only` restricts the check to one kind of frontend. */
function isAt(
  view: ObjectsView,
  servicePort: ServicePort,
  { protocol, address: wanted, port: number }: Destination,
  only?: WantedFrontend["kind"],
): boolean {
  const { family } = servicePort;
  if (servicePort.protocol !== protocol || family !== familyOf(wanted)) return false;
  return view
    .frontends(servicePort, family)
    .some(
      ({ kind, address = wanted, port }) =>
        address === wanted && port === number && kind === (only ?? kind),
    );
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
    const claims = await inSlices(view.clock, findClaims(view, destination));
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
