import type { OpenIpvs } from "./ipvs/client.ts";
import type { Ipvs } from "./kernel.ts";

/** IPVS that is looked for at the first request, so that its module can be loaded before. */
export interface LazyIpvs extends Ipvs {
  close(): void;
}

/** Opens at the first request, and again at the next one when that failed. */
export function lazyIpvs(open: () => Promise<OpenIpvs>): LazyIpvs {
  let opening: Promise<OpenIpvs> | undefined;
  let isClosed = false;
  const get = (): Promise<OpenIpvs> => {
    opening ??= open().catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening.then((ipvs) => {
      if (isClosed) ipvs.close();
      return ipvs;
    });
  };
  return {
    listVirtualServers: async () => (await get()).listVirtualServers(),
    findVirtualServers: async (ids) => (await get()).findVirtualServers(ids),
    readRealServers: async (ids, cached) => (await get()).readRealServers(ids, cached),
    listRealServers: async (ids) => (await get()).listRealServers(ids),
    listTraffic: async () => (await get()).listTraffic(),
    sumConnections: async (ids) => (await get()).sumConnections(ids),
    listRealServerTraffic: async (ids) => (await get()).listRealServerTraffic(ids),
    apply: async (changes) => (await get()).apply(changes),
    readTimeouts: async () => (await get()).readTimeouts(),
    writeTimeouts: async (timeouts) => (await get()).writeTimeouts(timeouts),
    checkScheduler: async (scheduler, family) => (await get()).checkScheduler(scheduler, family),
    close() {
      isClosed = true;
      opening?.then(
        (ipvs) => ipvs.close(),
        () => undefined,
      );
    },
  };
}
