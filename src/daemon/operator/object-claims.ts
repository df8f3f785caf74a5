/**
 * Finds the Services that claim an address and port, from the objects, in modes without virtual servers. Read-only.
 */

import type { Destination, ServiceRow } from "../../answer/answers.ts";
import type { ServiceName } from "../../api/objects.ts";
import { familyOf, type IpAddress, type IpFamily, isLoopback } from "../../base/ip.ts";
import { inSlices } from "../../base/time-slice.ts";
import { type ServicePort, servicePortKey } from "../../model/service-port.ts";
import { servicePortsOf } from "../../model/service-ports.ts";
import type { LostTo } from "../../plan/claims/claim.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import { absenceOf } from "./absence.ts";
import type { ObjectsView, ServedAddress } from "./daemon-view.ts";
import { claimedBy, lostReason } from "./row-fields.ts";
import { rowOf } from "./service-rows.ts";
import { wantedFrontends } from "./wanted-frontends.ts";

/** A service port that claims the address and port of a destination. */
export interface Claim {
  readonly service: ServiceName;
  readonly servicePort: ServicePort;
  readonly kind: ServedAddress["kind"];
}

/**
 * All addresses and ports of one Service, except loopback. `nodeAddresses` are used for service ports that are served
 * on every address of the node.
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

/** Finds the service ports that claim a destination. Iterates over all Services and yields after each. */
function* findClaims(
  view: ObjectsView,
  destination: Destination,
): Generator<void, readonly Claim[]> {
  const claims: Claim[] = [];
  const family = familyOf(destination.address);
  for (const service of view.objects.serviceNames()) {
    yield;
    const record = view.objects.service(service);
    if (record === undefined || !hasPort(record, destination)) continue;
    for (const servicePort of servicePortsOf(record, family)) {
      const found = claimOf(view, servicePort, family, destination);
      if (found !== undefined) claims.push({ service, servicePort, kind: found.kind });
    }
  }
  return claims;
}

/** A cheap check that excludes nearly all Services. */
function hasPort(
  { ports }: { readonly ports: readonly { readonly port: number; readonly nodePort: number }[] },
  { port: wanted }: Destination,
): boolean {
  return ports.some(({ port, nodePort }) => port === wanted || nodePort === wanted);
}

function claimOf(
  view: ObjectsView,
  servicePort: ServicePort,
  family: IpFamily,
  { protocol, address: wanted, port: number }: Destination,
): ServedAddress | undefined {
  if (servicePort.protocol !== protocol) return undefined;
  const isWanted = ({ address = wanted, port }: ServedAddress): boolean =>
    address === wanted && port === number;
  return view.frontends(servicePort, family).find(isWanted);
}

/**
 * Rows of the Services that claim the destinations. For each destination, the owner comes first, and the others
 * follow in `order`. No Service owns a loopback address, so the first in `order` is shown as its owner.
 */
export async function rowsOfClaims(
  view: ObjectsView,
  destinations: readonly Destination[],
  order: (one: Claim, other: Claim) => number,
): Promise<readonly ServiceRow[]> {
  const rows: ServiceRow[] = [];
  for (const destination of destinations) {
    const { address } = destination;
    const claims = await inSlices(view.clock, findClaims(view, destination));
    const lostTo = ({ servicePort }: Claim): LostTo | undefined =>
      view.lostTo(servicePort, virtualServerKey(destination));
    const byRight = (one: Claim, other: Claim): number =>
      Number(lostTo(one) !== undefined) - Number(lostTo(other) !== undefined) || order(one, other);
    for (const [index, claim] of claims.toSorted(byRight).entries()) {
      const row = claimRow(view, claim, address);
      if (row === undefined) continue;
      const lost = index === 0 ? {} : { reason: lostReason };
      rows.push({ ...row, ...lost, ...claimedBy(lostTo(claim)), address });
    }
  }
  return rows;
}

/** The row of a claim. A cluster IP or node port has a single row, whichever address was requested. */
function claimRow(
  view: ObjectsView,
  { service, servicePort, kind }: Claim,
  address: IpAddress,
): ServiceRow | undefined {
  const isSoleRow = kind === "cluster-ip" || kind === "node-port";
  const claimed = servicePortKey(servicePort);
  const context = { view, absence: absenceOf(view.history) };
  for (const wanted of wantedFrontends(view, [service])) {
    const { server } = wanted;
    const isAddress = isSoleRow || server.address === address;
    const isFamily = familyOf(server.address) === servicePort.family;
    const isPort = servicePortKey(wanted.servicePort) === claimed;
    if (isPort && isAddress && isFamily && wanted.kind === kind) {
      return rowOf(wanted, context, { hasEndpoints: true, hasConnections: false });
    }
  }
  return undefined;
}
