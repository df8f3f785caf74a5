import { isDeepStrictEqual } from "node:util";
import type { RecordOf } from "./decode/decode-object.ts";
import type { ResourceKind, SourceListener } from "./source.ts";

/** Called once per change. `previous` is the last known record with the same name. */
export type Notify<T> = (previous: T | undefined, current: T | undefined) => void;

/** The listener's callback for each kind. */
export function notifyOf(listener: SourceListener): {
  readonly [Kind in ResourceKind]: Notify<RecordOf[Kind]>;
} {
  return {
    services: (previous, current) => listener.onService(previous, current),
    endpointslices: (previous, current) => listener.onEndpointSlice(previous, current),
    nodes: (previous, current) => listener.onNode(previous, current),
  };
}

/** Keeps the last known records of one kind and reports changes. Equal records cause no notification. */
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
   * Stores the latest record under a name. `undefined` removes the record. If the record equals the last known one, the
   * last known object is kept and no subscriber is notified.
   */
  put(name: string, record: T | undefined): void {
    const previous = this.#lastKnown.get(name);
    if (isDeepStrictEqual(previous, record)) return;
    if (record === undefined) this.#lastKnown.delete(name);
    else this.#lastKnown.set(name, record);
    this.#notify(previous, record);
  }
}
