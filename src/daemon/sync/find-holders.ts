import type { Ipvs } from "../../kernel/kernel.ts";
import { type Holder, holderOf } from "../../plan/claims/claim.ts";
import type { ServerClaim } from "../../plan/claims/server-claims.ts";
import type { DesiredState } from "../../plan/desired-state.ts";
import { type RealServer, realServerKey } from "../../state/real-server.ts";
import type { ServerKey } from "../../state/virtual-server.ts";

/**
 * At startup in IPVS mode, finds out which Service is already served at a contested address. This is needed if several
 * Services have equal claims and no record names the owner. Reads only the real servers of contested virtual servers.
 * Rejects if they cannot be read.
 */
export async function findHolders(
  desired: Pick<DesiredState, "claims" | "holdClaims">,
  ipvs: Pick<Ipvs, "readRealServers">,
): Promise<void> {
  const undecided = desired.claims.undecided().flatMap(({ key, claims }) => {
    const [id] = claims.flatMap(({ planned }) => planned?.virtualServer ?? []);
    return id === undefined ? [] : [{ key, claims, id }];
  });
  if (undecided.length === 0) return;
  const observed = await ipvs.readRealServers(undecided.map(({ id }) => id));
  const holders = undecided.flatMap(({ key, claims }, index): (readonly [ServerKey, Holder])[] => {
    const served = servedClaim(claims, observed[index] ?? []);
    return served === undefined ? [] : [[key, holderOf(served)]];
  });
  desired.holdClaims(new Map(holders));
}

/** The only top-ranked claim whose endpoints receive new connections. Undefined if there are none or several. */
function servedClaim(
  claims: readonly ServerClaim[],
  observed: readonly RealServer[],
): ServerClaim | undefined {
  // Ignores draining real servers: they may remain from a Service that gave up the address.
  const taking = new Set(observed.filter(({ weight }) => weight > 0).map(realServerKey));
  const isServed = ({ planned }: ServerClaim): boolean =>
    planned?.realServers.some((server) => taking.has(realServerKey(server))) === true;
  const [served, another] = claims.filter(({ rank }) => rank === claims[0]?.rank).filter(isServed);
  return another === undefined ? served : undefined;
}
