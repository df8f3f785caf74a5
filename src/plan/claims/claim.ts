/** Who has a better right to an address, port and protocol that several Services ask for. Pure. */
import type { ServiceName } from "../../base/service-name.ts";
import { bySeniority, type ServicePort, servicePortName } from "../../model/service-port.ts";
import type { FrontendKind } from "../frontends.ts";

/**
 * Who has written an address decides before all else: the API server allocates cluster IPs and node ports, a controller
 * writes load-balancer IPs into the status, and whoever may edit a Service writes external IPs.
 */
export const claimRanks: Readonly<Record<FrontendKind, number>> = {
  "cluster-ip": 0,
  "node-port": 0,
  "load-balancer": 1,
  "external-ip": 2,
};

/** One service port's wish for an address, port and protocol. */
export interface Claim {
  readonly plan: { readonly servicePort: ServicePort };
  /** See {@link claimRanks}; the better one where a Service names its own cluster IP a second time. */
  readonly rank: number;
  /** When it was first seen, of addresses that anybody may name; absent: the age of the Service decides. */
  readonly seenAtSeconds?: number;
}

/** The Service that is served at an address. One that is deleted and made again is another one. */
export interface Holder {
  readonly service: ServiceName;
  readonly createdAtSeconds: number;
}

/** By what `virtualServerKey` gives. */
export type Holders = ReadonlyMap<string, Holder>;

/** Why the one who has an address has it, rather than the one who does not. */
export type ClaimReason =
  | "kind-of-address"
  | "held-before"
  | "earlier-claim"
  | "older"
  | "earlier-manifest"
  | "earlier-name";

/** A claim that lost: the address and port serve another Service. */
export interface LostClaim {
  readonly virtualServer: string;
  readonly winner: string;
  readonly loser: string;
  readonly reason: ClaimReason;
}

/** Who has what a Service lost. */
export interface LostTo {
  readonly service: ServiceName;
  readonly reason: ClaimReason;
}

export function holderOf({ plan: { servicePort } }: Claim): Holder {
  const { service, createdAtSeconds } = servicePort;
  return { service, createdAtSeconds };
}

export function isHeldBy({ plan: { servicePort } }: Claim, holder: Holder | undefined): boolean {
  return (
    servicePort.service === holder?.service &&
    servicePort.createdAtSeconds === holder.createdAtSeconds
  );
}

/**
 * Sorts whoever has the better right first: by rank; among equals who is served there already; then the older claim, then the older Service, in
 * manifests the first in the order of files, then by name.
 */
export function byRight(left: Claim, right: Claim, holder: Holder | undefined): number {
  if (left.rank !== right.rank) return left.rank - right.rank;
  const held = Number(isHeldBy(right, holder)) - Number(isHeldBy(left, holder));
  return held !== 0 ? held : byAge(left, right);
}

/** Why `winner` has what `loser` asks for, too. */
export function lostClaim(virtualServer: string, winner: Claim, loser: Claim): LostClaim {
  return {
    virtualServer,
    winner: servicePortName(winner.plan.servicePort),
    loser: servicePortName(loser.plan.servicePort),
    reason: claimReason(winner, loser),
  };
}

export function claimReason(winner: Claim, loser: Claim): ClaimReason {
  if (winner.rank !== loser.rank) return "kind-of-address";
  // By age alone the other one would have it.
  if (byAge(winner, loser) > 0) return "held-before";
  if (seenFirst(winner, loser) !== 0) return "earlier-claim";
  const [a, b] = [winner.plan.servicePort, loser.plan.servicePort];
  if (a.createdAtSeconds !== b.createdAtSeconds) return "older";
  return a.manifestOrder === b.manifestOrder ? "earlier-name" : "earlier-manifest";
}

function byAge(left: Claim, right: Claim): number {
  const [one, other] = [left.plan.servicePort, right.plan.servicePort];
  return (
    seenFirst(left, right) ||
    one.createdAtSeconds - other.createdAtSeconds ||
    // Names are put together where nothing else decides.
    bySeniority({ ...one, name: servicePortName(one) }, { ...other, name: servicePortName(other) })
  );
}

function seenFirst({ seenAtSeconds: one = 0 }: Claim, { seenAtSeconds: other = 0 }: Claim): number {
  return one - other;
}
