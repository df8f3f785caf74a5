import { sameValue } from "../base/same-value.ts";
import type { RecordOf } from "./decode/decode-object.ts";
import type { ResourceKind, SourceListener } from "./source.ts";

/** Tells one change; `previous` is what was told last under this name. */
export type Tell<T> = (previous: T | undefined, current: T | undefined) => void;

/** The listener's callback of each kind. */
export function tellOf(listener: SourceListener): {
  readonly [Kind in ResourceKind]: Tell<RecordOf[Kind]>;
} {
  return {
    services: (previous, current) => listener.onService(previous, current),
    endpointslices: (previous, current) => listener.onEndpointSlice(previous, current),
    nodes: (previous, current) => listener.onNode(previous, current),
  };
}

/** Remembers the records of one kind that were told: a callback gets the previous one, equal ones get none. */
export class ToldRecords<T> {
  readonly #tell: Tell<T>;
  readonly #told = new Map<string, T>();

  constructor(tell: Tell<T>) {
    this.#tell = tell;
  }

  get size(): number {
    return this.#told.size;
  }

  get(name: string): T | undefined {
    return this.#told.get(name);
  }

  records(): Iterable<T> {
    return this.#told.values();
  }

  names(): readonly string[] {
    return [...this.#told.keys()];
  }

  /**
   * Takes the newest record under a name; `undefined` when there is none (any more). An equal record is not
   * told, and what was told stays the previous one.
   */
  put(name: string, record: T | undefined): void {
    const previous = this.#told.get(name);
    if (sameValue(previous, record)) return;
    if (record === undefined) this.#told.delete(name);
    else this.#told.set(name, record);
    this.#tell(previous, record);
  }
}
