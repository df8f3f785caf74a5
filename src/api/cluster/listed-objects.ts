import type { LastKnownRecords } from "../last-known-records.ts";
import type { ReflectorTarget } from "./reflector-target.ts";

type Judged<T> = Pick<ReflectorTarget<T>, "keysOf">;

/**
 * A list that is still arriving. The target is notified of new objects immediately. Changes that remove addresses wait
 * until the list is complete and the relist guard accepts it.
 */
export class ListedObjects<T> {
  /** The addresses or other keys in the list, which the relist guard counts. */
  readonly keys: Set<string> = new Set<string>();
  readonly #records: LastKnownRecords<T>;
  readonly #target: Judged<T>;
  readonly #listed = new Map<string, T | undefined>();

  constructor(target: Judged<T>, records: LastKnownRecords<T>) {
    this.#target = target;
    this.#records = records;
  }

  get objectCount(): number {
    return this.#listed.size;
  }

  has(name: string): boolean {
    return this.#listed.has(name);
  }

  put(name: string, record: T | undefined): void {
    const before = this.#records.get(name);
    const keys = record === undefined ? [] : this.#target.keysOf(record);
    for (const key of keys) this.keys.add(key);
    if (before !== undefined && this.#loses(before, keys)) this.#listed.set(name, record);
    else {
      this.#records.put(name, record);
      // Keeps the known record instead of an equal one, which saves memory and a later comparison.
      this.#listed.set(name, this.#records.get(name));
    }
  }

  /**
   * Reports the waiting changes, and the removal of everything that is not in the list. Also repeats new objects,
   * because an older list that expired in quarantine may have removed them meanwhile.
   */
  takeAway(): void {
    for (const [name, record] of this.#listed) this.#records.put(name, record);
    for (const name of this.#records.names()) {
      if (!this.#listed.has(name)) this.#records.put(name, undefined);
    }
  }

  #loses(before: T, keys: readonly string[]): boolean {
    const present = new Set(keys);
    return this.#target.keysOf(before).some((key) => !present.has(key));
  }
}

/** The keys of the last known objects, with which a list is compared. */
export function knownKeys<T>(
  { keysOf }: Judged<T>,
  records: LastKnownRecords<T>,
): ReadonlySet<string> {
  const known = new Set<string>();
  for (const record of records.records()) for (const key of keysOf(record)) known.add(key);
  return known;
}
