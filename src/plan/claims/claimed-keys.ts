/** A service port's addresses and ports as keys, which several Services may claim. Pure. */
import type { ServicePort } from "../../model/service-port.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { AskedFrontend } from "../frontends.ts";
import { claimRanks } from "./claim.ts";

export interface ClaimedKey {
  readonly key: string;
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
): string | undefined {
  const first = frontends.find(({ kind }) => kind === "node-port");
  return first && claimKey(port, first);
}

export function claimKey(
  { protocol }: ServicePort,
  { address, port }: Pick<AskedFrontend, "address" | "port">,
): string {
  return virtualServerKey({ protocol, address, port });
}
