/** Reads virtual and real servers before they are requested. */
import type { Clock } from "../../base/clock.ts";
import type { Ipvs } from "../../kernel/kernel.ts";
import type { RealServer } from "../../state/real-server.ts";
import { type ServerKey, virtualServerKey } from "../../state/virtual-server.ts";
import type { CachedVirtualServer } from "./cached-state.ts";

/**
 * A result older than this is not used, and the servers are read again. The first lists may take hours if the API
 * server is unavailable.
 */
const longestAgeMs = 60_000;

/**
 * Reads the virtual and real servers in the kernel while the first lists arrive. The relist guard, which checks those
 * lists, and the first comparison share the result. If a third party changes real servers in the meantime, the next
 * verification finds this.
 */
export class ServersAhead {
  readonly #ipvs: Pick<Ipvs, "listVirtualServers" | "readRealServers">;
  readonly #clock: Pick<Clock, "monotonicMs">;
  #reading: Promise<readonly CachedVirtualServer[]> | undefined;
  #readAtMs = 0;

  constructor(
    ipvs: Pick<Ipvs, "listVirtualServers" | "readRealServers">,
    clock: Pick<Clock, "monotonicMs">,
  ) {
    this.#ipvs = ipvs;
    this.#clock = clock;
  }

  /**
   * Returns the result, and reads the servers if there is none or it is too old. Rejects if the kernel cannot be read;
   * the next call tries again.
   */
  read(): Promise<readonly CachedVirtualServer[]> {
    if (this.#reading !== undefined && !this.#isTooOld()) return this.#reading;
    const reading = this.#read().catch((error: unknown) => {
      if (this.#reading === reading) this.#reading = undefined;
      throw error;
    });
    this.#reading = reading;
    return reading;
  }

  /**
   * Returns the real servers by virtual server key, and discards the result. Empty if there is no result or it is too
   * old. Never rejects, because the next kernel read reports the failure.
   */
  async take(): Promise<ReadonlyMap<ServerKey, readonly RealServer[]>> {
    const servers = (await this.#reading?.catch(() => undefined)) ?? [];
    this.#reading = undefined;
    if (this.#isTooOld()) return new Map();
    return new Map(
      servers.map(({ virtualServer, realServers }) => [
        virtualServerKey(virtualServer),
        realServers,
      ]),
    );
  }

  #isTooOld(): boolean {
    return this.#clock.monotonicMs() - this.#readAtMs > longestAgeMs;
  }

  async #read(): Promise<readonly CachedVirtualServer[]> {
    this.#readAtMs = this.#clock.monotonicMs();
    const servers = await this.#ipvs.listVirtualServers();
    const lists = await this.#ipvs.readRealServers(servers);
    return servers.map((virtualServer, index) => ({
      virtualServer,
      realServers: lists[index] ?? [],
    }));
  }
}
