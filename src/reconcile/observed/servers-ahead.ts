/** Virtual and real servers that are read before they are asked for. */
import type { Clock } from "../../base/clock.ts";
import type { Ipvs } from "../../kernel/kernel.ts";
import type { RealServer } from "../../state/real-server.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { CachedVirtualServer } from "./cached-state.ts";

/** The lists may take hours, where the API server is away: what was read so long ago is read again. */
const longestAgeMs = 60_000;

/**
 * Reads the kernel's servers while the first lists arrive: who judges the lists and the first comparison share one
 * reading. What a third party does to real servers meanwhile is found by the next verification, as at any other time.
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

  /** Reads once, whoever asks, and again what is too old. Rejects with what the kernel says; who asks then has it read again. */
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
   * Real servers by the key of their virtual server, for the first who asks; empty where nothing was read, or too long
   * ago. Never rejects: who reads the kernel next meets the failure again.
   */
  async take(): Promise<ReadonlyMap<string, readonly RealServer[]>> {
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
