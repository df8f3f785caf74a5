/** Decides which of several Services owns an address, port and protocol. Pure. */
import type { ServiceName } from "../../base/service-name.ts";
import { bySeniority, type ServicePort, servicePortName } from "../../model/service-port.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { FrontendKind, ReservedAddress } from "../frontends.ts";
import type { HealthPortKey } from "./claimed-keys.ts";

/**
 * The first criterion is who can write the address; a lower rank takes precedence. The API server allocates cluster IPs
 * and node ports. A controller writes load-balancer IPs into the status. Anyone who may edit a Service can write
 * external IPs.
 */
export const claimRanks: Readonly<Record<FrontendKind, number>> = {
  "cluster-ip": 0,
  "node-port": 0,
  "load-balancer": 1,
  "external-ip": 2,
};

/** One service port's claim to an address, port and protocol. */
export interface Claim {
  readonly plan: {
    readonly servicePort: ServicePort;
    /** External and load-balancer IPs that are not bound or not served. Undefined if there are none. */
    readonly reserved?: readonly ReservedAddress[];
  };
  /** See {@link claimRanks}. If a Service claims the same address in two ways, the better rank applies. */
  readonly rank: number;
  /** When a claim to an external or load-balancer IP was first seen. If undefined, the Service's age decides. */
  readonly seenAtSeconds?: number;
}

/** The Service that is served at an address. A Service that is deleted and recreated is a different holder. */
export interface Holder {
  readonly service: ServiceName;
  readonly createdAtSeconds: number;
}

/** Identifies what Services claim. */
export type ClaimKey = ServerKey | HealthPortKey;

export type Holders<Key extends ClaimKey = ClaimKey> = ReadonlyMap<Key, Holder>;

/** Why the owner of an address precedes another Service. */
export type ClaimReason =
  | "kind-of-address"
  | "held-before"
  | "earlier-claim"
  | "older"
  | "earlier-manifest"
  | "earlier-name";

/** A losing claim: a different Service is served at the address and port. */
export interface LostClaim {
  readonly virtualServer: string;
  readonly winner: string;
  readonly loser: string;
  readonly reason: ClaimReason;
}

/** The owner of a contested address, as reported to a losing Service. */
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
 * Compares two claims; the stronger one sorts first. Criteria: better rank, already served there (`holder`), older
 * claim, older Service, earlier position in the manifests, name.
 */
export function byRight(left: Claim, right: Claim, holder: Holder | undefined): number {
  if (left.rank !== right.rank) return left.rank - right.rank;
  const held = Number(isHeldBy(right, holder)) - Number(isHeldBy(left, holder));
  return held !== 0 ? held : byAge(left, right);
}

/** Why `winner` owns the address that `loser` also requests. */
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
  // If only age decided, the other Service would be the owner.
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
    // Builds names only if the times are equal.
    bySeniority({ ...one, name: servicePortName(one) }, { ...other, name: servicePortName(other) })
  );
}

function seenFirst({ seenAtSeconds: one = 0 }: Claim, { seenAtSeconds: other = 0 }: Claim): number {
  return one - other;
}
