import { type RealServer, realServerKey } from "../../state/real-server.ts";
import { type Holder, holderOf } from "./claim.ts";
import type { ServerClaim } from "./server-claims.ts";

/**
 * Finds the Service that a virtual server found at startup serves: the only claimant of the best rank whose endpoints
 * get new connections there. Undefined if this applies to none or to several of them. Pure.
 */
export function holderByEndpoints(
  claims: readonly ServerClaim[],
  observed: readonly RealServer[],
): Holder | undefined {
  // Ignores draining real servers: they may remain from a Service that gave up the address.
  const taking = new Set(observed.filter(({ weight }) => weight > 0).map(realServerKey));
  const isServed = ({ planned }: ServerClaim): boolean =>
    planned.realServers.some((server) => taking.has(realServerKey(server)));
  const [served, another] = claims.filter(({ rank }) => rank === claims[0]?.rank).filter(isServed);
  return served === undefined || another !== undefined ? undefined : holderOf(served);
}
