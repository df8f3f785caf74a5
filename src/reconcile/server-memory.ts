import type { KnownState } from "./known-state.ts";
import type { Work } from "./sync-context.ts";

/** Which virtual servers this process found to be its own, and which to be of others. By key. */
export class ServerMemory {
  readonly #ours = new Set<string>();
  readonly #foreign = new Set<string>();

  get ours(): ReadonlySet<string> {
    return this.#ours;
  }

  get foreign(): ReadonlySet<string> {
    return this.#foreign;
  }

  /** After a sync that compared everything: what stands there and is not of others is ours. */
  noteAll({ virtualServers }: KnownState, { foreignServers }: Work): void {
    this.#foreign.clear();
    for (const key of foreignServers) if (!this.#ours.has(key)) this.#foreign.add(key);
    this.#ours.clear();
    for (const key of virtualServers.keys()) if (!this.#foreign.has(key)) this.#ours.add(key);
  }

  /** After a sync of what had changed. */
  noteChanged({ virtualServers }: KnownState, { servers }: Work): void {
    for (const { key } of servers) {
      if (virtualServers.has(key)) this.#ours.add(key);
      else this.#ours.delete(key);
    }
  }

  /** One that should have been new was there already. */
  noteTaken(key: string): void {
    this.#foreign.add(key);
  }
}
