import { type RealServer, realServerKey } from "../../state/real-server.ts";
import { type Holder, holderOf } from "./claim.ts";
import type { ServerClaim } from "./server-claims.ts";

/**
 * Whom a virtual server serves that a start finds in the kernel: the one claimant of the best rank behind whose endpoints
 * new connections go. Undefined: nobody's or several claimants' endpoints are there. Pure.
 */
export function holderByEndpoints(
  claims: readonly ServerClaim[],
  observed: readonly RealServer[],
): Holder | undefined {
  // A real server that drains may be what a Service left that gave the address up.
  const taking = new Set(observed.filter(({ weight }) => weight > 0).map(realServerKey));
  const isServed = ({ planned }: ServerClaim): boolean =>
    planned.realServers.some((server) => taking.has(realServerKey(server)));
  const [served, another] = claims.filter(({ rank }) => rank === claims[0]?.rank).filter(isServed);
  return served === undefined || another !== undefined ? undefined : holderOf(served);
}
