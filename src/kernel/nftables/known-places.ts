import type { SetEntry } from "../../state/set-entry.ts";
import type { Place, Places } from "./overlaps.ts";

/**
 * The places of networks (see overlaps.ts) as last read or written, by set. Reading a large set for each change would
 * cost far more than the change itself. The places are valid as long as only our own transactions advance the nf_tables
 * generation.
 */
export class KnownPlaces {
  readonly #bySet = new Map<string, Map<string, ReadonlyMap<SetEntry, Place>>>();
  #generation: number | undefined;

  get isEmpty(): boolean {
    return this.#bySet.size === 0;
  }

  /** Forgets everything if other software has changed a table. */
  checkGeneration(generation: number | undefined): void {
    if (generation === undefined || generation !== this.#generation) this.#bySet.clear();
    this.#generation = generation;
  }

  /** Call this after a change. `commits` is the number of our transactions since the last check. */
  advance(generation: number | undefined, commits: number): void {
    if (this.#generation === undefined || generation !== this.#generation + commits) {
      this.#bySet.clear();
    }
    this.#generation = generation;
  }

  /** The known places of a set, or those that `read` returns. */
  async placesOf(
    setName: string,
    read: () => Promise<Map<string, Map<SetEntry, Place>>>,
  ): Promise<Places> {
    const known = this.#bySet.get(setName) ?? (await read());
    this.#bySet.set(setName, known);
    return known;
  }

  /** Records a change that is about to be made. If it fails, {@link forget} must be called. */
  note(setName: string, after: Places): void {
    const known = this.#bySet.get(setName);
    for (const [server, places] of after) {
      if (places.size === 0) known?.delete(server);
      else known?.set(server, places);
    }
  }

  forget(): void {
    this.#bySet.clear();
  }
}
