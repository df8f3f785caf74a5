import type { ServedAddresses } from "../../api/source.ts";
import type { IpAddress } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { CachedVirtualServer } from "../../reconcile/observed/cached-state.ts";

type GuardOptions = Pick<Config, "objectsFrom" | "relistGuardPercent">;

/** Ends the program. Called if the served addresses, which the relist guard needs, cannot be read. */
type Fail = (error: Error) => void;

/** Reads the kernel state at startup. */
export interface ServedBeforeContext {
  /** Addresses on kube-ipvs0. Undefined if the link does not exist. */
  readonly readBound: () => Promise<readonly IpAddress[] | undefined>;
  readonly readServers: () => Promise<readonly CachedVirtualServer[]>;
  readonly fail: Fail;
}

/**
 * The addresses that the kernel serves at startup: those on kube-ipvs0, and those of their real servers with a non-zero
 * weight. Returns undefined if the relist guard is off.
 */
export function servedBefore(
  { readBound, readServers, fail }: ServedBeforeContext,
  options: GuardOptions,
): ServedAddresses | undefined {
  const services = async (): Promise<ReadonlySet<IpAddress>> => new Set(await readBound());
  const endpointslices = async (): Promise<ReadonlySet<IpAddress>> => {
    const bound = await services();
    // Commands that only print a plan also run without IPVS. No addresses are bound then, so the real servers are not
    // read.
    return bound.size === 0 ? bound : endpointsBehind(bound, await readServers());
  };
  return guardedBy({ services, endpointslices }, fail, options);
}

/** Wraps the readers so that an error ends the program. Returns undefined if the relist guard is off. */
export function guardedBy(
  { services, endpointslices }: ServedAddresses,
  fail: Fail,
  { objectsFrom, relistGuardPercent }: GuardOptions,
): ServedAddresses | undefined {
  if (objectsFrom.kind !== "cluster" || relistGuardPercent === 0) return undefined;
  const failing = async <T>(reading: Promise<T>): Promise<T> => {
    try {
      return await reading;
    } catch (error) {
      fail(error as Error);
      throw error;
    }
  };
  return {
    services: () => failing(services()),
    endpointslices: () => failing(endpointslices()),
  };
}

function endpointsBehind(
  bound: ReadonlySet<IpAddress>,
  servers: readonly CachedVirtualServer[],
): ReadonlySet<IpAddress> {
  const endpoints = new Set<IpAddress>();
  for (const { virtualServer, realServers } of servers) {
    if (!bound.has(virtualServer.address)) continue;
    for (const { address, weight } of realServers) if (weight > 0) endpoints.add(address);
  }
  return endpoints;
}
