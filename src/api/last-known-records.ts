import { isDeepStrictEqual } from "node:util";
import type { RecordOf } from "./decode/decode-object.ts";
import type { ResourceKind, SourceListener } from "./source.ts";

/** Notifies of one change; `previous` is the last known record of this name. */
export type Notify<T> = (previous: T | undefined, current: T | undefined) => void;

/** The listener's callback of each kind. */
export function notifyOf(listener: SourceListener): {
  readonly [Kind in ResourceKind]: Notify<RecordOf[Kind]>;
} {
  return {
    services: (previous, current) => listener.onService(previous, current),
    endpointslices: (previous, current) => listener.onEndpointSlice(previous, current),
    nodes: (previous, current) => listener.onNode(previous, current),
  };
}

/** Keeps the last known records of one kind. A callback gets the previous record; equal records cause no callback. */
export class LastKnownRecords<T> {
  readonly #notify: Notify<T>;
  readonly #lastKnown = new Map<string, T>();

  constructor(notify: Notify<T>) {
    this.#notify = notify;
  }

  get size(): number {
    return this.#lastKnown.size;
  }

  get(name: string): T | undefined {
    return this.#lastKnown.get(name);
  }

  records(): Iterable<T> {
    return this.#lastKnown.values();
  }

  names(): readonly string[] {
    return [...this.#lastKnown.keys()];
  }

  /**
   * Takes the newest record under a name; `undefined` when there is none (any more). An equal record
   * causes no callback, and the last known one stays the previous one.
   */
  put(name: string, record: T | undefined): void {
    const previous = this.#lastKnown.get(name);
    if (isDeepStrictEqual(previous, record)) return;
    if (record === undefined) this.#lastKnown.delete(name);
    else this.#lastKnown.set(name, record);
    this.#notify(previous, record);
  }
}
