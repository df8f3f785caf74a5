/** A service port's addresses and ports as keys, which several Services may claim. Pure. */
import type { IpFamily } from "../../base/ip.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { type ServerKey, virtualServerKey } from "../../state/virtual-server.ts";
import type { AskedFrontend } from "../frontends.ts";
import { type ClaimKey, claimRanks } from "./claim.ts";

/** For example `health-check node port 30000 (IPv4)`. */
export type HealthPortKey = string & { readonly __brand: "HealthPortKey" };

export function healthPortKey(port: number, family: IpFamily): HealthPortKey {
  return `health-check node port ${port} (${family})` as HealthPortKey;
}

/** Takes a recorded key, unchecked. */
export function toClaimKey(text: string): ClaimKey {
  return text as ClaimKey;
}

export interface ClaimedKey<Key = ServerKey> {
  readonly key: Key;
  /** See {@link claimRanks}. */
  readonly rank: number;
}

export function claimsOf(
  port: ServicePort,
  frontends: readonly AskedFrontend[],
): readonly ClaimedKey[] {
  return frontends.map((frontend) => ({
    key: claimKey(port, frontend),
    rank: claimRanks[frontend.kind],
  }));
}

/**
 * Key of the first node-port frontend. It represents all node addresses, because one rule covers them and one Service
 * owns them. Undefined if no address serves node ports.
 */
export function nodePortClaim(
  port: ServicePort,
  frontends: readonly AskedFrontend[],
): ServerKey | undefined {
  const first = frontends.find(({ kind }) => kind === "node-port");
  return first && claimKey(port, first);
}

export function claimKey(
  { protocol }: ServicePort,
  { address, port }: Pick<AskedFrontend, "address" | "port">,
): ServerKey {
  return virtualServerKey({ protocol, address, port });
}
