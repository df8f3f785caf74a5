/**
 * At a start: which of several Services with an equal right to an address is served there already, where no record says
 * so. Nothing is read where there are none. What rejects is the kernel, which does not answer.
 */
import type { Ipvs } from "../../kernel/kernel.ts";
import type { Holder } from "../../plan/claims/claim.ts";
import { holderByEndpoints } from "../../plan/claims/holder-by-endpoints.ts";
import type { DesiredState } from "../../plan/desired-state.ts";

/** Mode ipvs: by the real servers of those virtual servers alone. */
export async function findHolders(
  desired: Pick<DesiredState, "undecidedClaims" | "holdClaims">,
  ipvs: Pick<Ipvs, "readRealServers">,
): Promise<void> {
  const undecided = desired.undecidedClaims();
  if (undecided.length === 0) return;
  const ids = undecided.flatMap(({ claims: [first] }) => first?.planned.virtualServer ?? []);
  const observed = await ipvs.readRealServers(ids);
  const holders = undecided.flatMap(({ key, claims }, index): (readonly [string, Holder])[] => {
    const holder = holderByEndpoints(claims, observed[index] ?? []);
    return holder === undefined ? [] : [[key, holder]];
  });
  desired.holdClaims(new Map(holders));
}
