import type { ApiObject } from "../objects.ts";
import { objectKey, type Resource, resourceOf, resources } from "./resources.ts";

/** A change to one object. `previous` is absent for a creation, `current` for a deletion. */
export interface StoreEvent {
  readonly revision: number;
  readonly resource: Resource;
  readonly previous: ApiObject | undefined;
  readonly current: ApiObject | undefined;
}

/** Objects with resourceVersions and a change history, like etcd behind an API server. */
export class ObjectStore {
  #revision: number;
  #oldestRevision: number;
  #history: StoreEvent[] = [];
  readonly #objects = new Map(resources.map(({ path }) => [path, new Map<string, ApiObject>()]));
  /** Sorted keys, cached until an object is created or deleted, because a list has many pages. */
  readonly #sortedKeys = new Map<Resource, readonly string[]>();
  readonly #subscribers = new Set<(event: StoreEvent) => void>();

  /** The first revision is derived from the clock, because a restarted server must not start at 1 again. */
  constructor(firstRevision: number = Date.now()) {
    this.#revision = firstRevision;
    this.#oldestRevision = firstRevision;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Creates or replaces objects, each with its own revision. */
  apply(...objects: readonly ApiObject[]): void {
    for (const object of objects) {
      const resource = resourceOf(object);
      const stored = this.#objectsOf(resource);
      const key = objectKey(object);
      const previous = stored.get(key);
      const current = this.#stamped(object, resource);
      if (previous === undefined) this.#sortedKeys.delete(resource);
      stored.set(key, current);
      this.#record({ revision: this.#revision, resource, previous, current });
    }
  }

  /** Removes objects by kind and name. Missing objects are not an error. */
  delete(...objects: readonly Pick<ApiObject, "kind" | "metadata">[]): void {
    for (const object of objects) {
      const resource = resourceOf(object as ApiObject);
      const stored = this.#objectsOf(resource);
      const previous = stored.get(objectKey(object));
      if (previous === undefined) continue;
      stored.delete(objectKey(object));
      this.#sortedKeys.delete(resource);
      const last = this.#stamped(previous, resource);
      this.#record({ revision: this.#revision, resource, previous: last, current: undefined });
    }
  }

  /** Objects in key order. */
  list(resource: Resource): readonly ApiObject[] {
    const stored = this.#objectsOf(resource);
    const keys = this.#sortedKeys.get(resource) ?? [...stored.keys()].sort();
    this.#sortedKeys.set(resource, keys);
    return keys.flatMap((key) => stored.get(key) ?? []);
  }

  /** The changes after a revision. Undefined if they are no longer stored. */
  since(revision: number): readonly StoreEvent[] | undefined {
    if (revision < this.#oldestRevision) return undefined;
    return this.#history.filter((event) => event.revision > revision);
  }

  /** Forgets the history, so that watches from older revisions get 410. */
  compact(): void {
    this.#revision += 1;
    this.#oldestRevision = this.#revision;
    this.#history = [];
  }

  /** From now on, calls `subscriber` for each change. Returns a function that ends the subscription. */
  subscribe(subscriber: (event: StoreEvent) => void): () => void {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  }

  #objectsOf(resource: Resource): Map<string, ApiObject> {
    const stored = this.#objects.get(resource.path);
    if (stored === undefined) throw new Error(`No such resource: ${resource.path}`);
    return stored;
  }

  #stamped(object: ApiObject, { apiVersion, kind }: Resource): ApiObject {
    this.#revision += 1;
    const metadata = { ...object.metadata, resourceVersion: String(this.#revision) };
    return { ...object, apiVersion, kind, metadata };
  }

  #record(event: StoreEvent): void {
    this.#history.push(event);
    for (const subscriber of this.#subscribers) subscriber(event);
  }
}
