/** Addresses and ports of a service port, as several Services may claim them. Pure. */
import type { ServicePort } from "../../model/service-port.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { Frontend } from "../frontends.ts";
import { claimRanks } from "./claim.ts";

export interface ClaimedKey {
  readonly key: string;
  /** See {@link claimRanks}. */
  readonly rank: number;
}

export type ClaimedFrontend = Pick<Frontend, "kind" | "address" | "port">;

export function claimsOf(
  port: ServicePort,
  frontends: readonly ClaimedFrontend[],
): readonly ClaimedKey[] {
  return frontends.map((frontend) => ({
    key: claimKey(port, frontend),
    rank: claimRanks[frontend.kind],
  }));
}

/** One rule stands for all addresses of the node, and who has one of them has them all. Undefined: no address serves. */
export function nodePortClaim(
  port: ServicePort,
  frontends: readonly ClaimedFrontend[],
): string | undefined {
  const first = frontends.find(({ kind }) => kind === "node-port");
  return first && claimKey(port, first);
}

export function claimKey(
  { protocol }: ServicePort,
  { address, port }: Pick<ClaimedFrontend, "address" | "port">,
): string {
  return virtualServerKey({ protocol, address, port });
}
