import { type NamedObject, objectKey } from "../memory-source.ts";
import { node } from "../objects.ts";

/** A walk's objects in its API server. A Node exists from the beginning. */
export class ObjectBook {
  readonly #objects = new Map<string, NamedObject>();

  constructor() {
    this.apply(node() as unknown as NamedObject);
  }

  all(): readonly NamedObject[] {
    return [...this.#objects.values()];
  }

  apply(object: NamedObject): void {
    this.#objects.set(objectKey(object), object);
  }

  delete(object: NamedObject): void {
    this.#objects.delete(objectKey(object));
  }
}
