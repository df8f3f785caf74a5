import type { Ipvs } from "../../kernel/kernel.ts";
import type { Holder } from "../../plan/claims/claim.ts";
import { holderByEndpoints } from "../../plan/claims/holder-by-endpoints.ts";
import type { DesiredState } from "../../plan/desired-state.ts";

/**
 * At startup in IPVS mode, finds the Service that an address already serves, if several Services have equal claims and no record names the
 * owner. Reads only the real servers of the contested virtual servers. Rejects if they cannot be read.
 */
export async function findHolders(
  desired: Pick<DesiredState, "claims" | "holdClaims">,
  ipvs: Pick<Ipvs, "readRealServers">,
): Promise<void> {
  const undecided = desired.claims.undecided();
  if (undecided.length === 0) return;
  const ids = undecided.flatMap(({ claims: [first] }) => first?.planned.virtualServer ?? []);
  const observed = await ipvs.readRealServers(ids);
  const holders = undecided.flatMap(({ key, claims }, index): (readonly [string, Holder])[] => {
    const holder = holderByEndpoints(claims, observed[index] ?? []);
    return holder === undefined ? [] : [[key, holder]];
  });
  desired.holdClaims(new Map(holders));
}
