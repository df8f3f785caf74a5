import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { ObservedIpSet } from "../../state/ip-set.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { CachedRules } from "./cached-rules.ts";
import type { CachedVirtualServer } from "./cached-state.ts";

/** A cached and an observed value. Undefined if the object does not exist. */
export interface Difference<T> {
  readonly before: T | undefined;
  readonly after: T | undefined;
}

/**
 * Differences between the kernel and the cache. `before` is the cached value before the first differing observation.
 * `after` is the last observed value.
 */
export class Differences {
  readonly servers: Map<ServerKey, Difference<CachedVirtualServer>> = new Map();
  readonly sets: Map<string, Difference<ObservedIpSet>> = new Map();
  /** Whether each entry existed before, by set name. */
  readonly entries: Map<string, Map<SetEntry, boolean>> = new Map();
  /** Whether each address was on kube-ipvs0 before. */
  readonly addresses: Map<IpAddress, boolean> = new Map();
  readonly rules: Map<IpFamily, Difference<CachedRules>> = new Map();
  readonly sysctls: Map<string, Difference<string>> = new Map();
  /** Number of addresses on kube-ipvs0 before the link was removed. Undefined if it was not removed. */
  lostLinkAddressCount: number | undefined;

  get isEmpty(): boolean {
    const maps = [this.servers, this.sets, this.entries, this.addresses, this.rules, this.sysctls];
    return this.lostLinkAddressCount === undefined && maps.every(({ size }) => size === 0);
  }

  noteServer(
    key: ServerKey,
    before: CachedVirtualServer | undefined,
    after: CachedVirtualServer | undefined,
  ): void {
    this.servers.set(key, { before: (this.servers.get(key) ?? { before }).before, after });
  }

  noteEntry(setName: string, entry: SetEntry, wasThere: boolean): void {
    const entries = this.entries.get(setName) ?? new Map<SetEntry, boolean>();
    this.entries.set(setName, entries.set(entry, wasThere));
  }
}
