import type { ServedAddresses } from "../../api/source.ts";
import type { IpAddress } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { CachedVirtualServer } from "../../reconcile/observed/cached-state.ts";

type GuardOptions = Pick<Config, "objectsFrom" | "listGuardPercent">;

/** Ends the program: without what is served no list can be judged. */
type Fail = (error: Error) => void;

/** Reads what is in the kernel at a start. */
export interface ServedBeforeParts {
  /** Addresses of kube-ipvs0; undefined where there is no such link. */
  readonly readBound: () => Promise<readonly IpAddress[] | undefined>;
  readonly readServers: () => Promise<readonly CachedVirtualServer[]>;
  readonly fail: Fail;
}

/**
 * What the kernel serves at a start: the addresses of kube-ipvs0, and the real servers behind them that get
 * new connections. `undefined` where no list is guarded.
 */
export function servedBefore(
  { readBound, readServers, fail }: ServedBeforeParts,
  options: GuardOptions,
): ServedAddresses | undefined {
  const services = async (): Promise<ReadonlySet<IpAddress>> => new Set(await readBound());
  const endpointslices = async (): Promise<ReadonlySet<IpAddress>> => {
    const bound = await services();
    // A kernel without IPVS, of which only a plan is wanted, has no addresses either.
    return bound.size === 0 ? bound : endpointsBehind(bound, await readServers());
  };
  return guardedBy({ services, endpointslices }, fail, options);
}

/** `undefined` if no list is guarded. */
export function guardedBy(
  { services, endpointslices }: ServedAddresses,
  fail: Fail,
  { objectsFrom, listGuardPercent }: GuardOptions,
): ServedAddresses | undefined {
  if (objectsFrom.kind !== "cluster" || listGuardPercent === 0) return undefined;
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
