import type { ApiObject } from "../objects.ts";
import { objectKey, type Resource, resourceOf, resources } from "./resources.ts";

/** A change of one object; `previous` or `current` is missing at its birth or death. */
export interface StoreEvent {
  readonly revision: number;
  readonly resource: Resource;
  readonly previous: ApiObject | undefined;
  readonly current: ApiObject | undefined;
}

/** Objects with resourceVersions and a history of changes, as etcd behind an API server. */
export class ObjectStore {
  #revision: number;
  #oldestRevision: number;
  #history: StoreEvent[] = [];
  readonly #objects = new Map(resources.map(({ path }) => [path, new Map<string, ApiObject>()]));
  /** In the order of their keys, until one is born or dies: a list comes in many pages. */
  readonly #sortedKeys = new Map<Resource, readonly string[]>();
  readonly #subscribers = new Set<(event: StoreEvent) => void>();

  /** A restarted server must not count from 1 again, so the clock gives the first revision. */
  constructor(firstRevision: number = Date.now()) {
    this.#revision = firstRevision;
    this.#oldestRevision = firstRevision;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Creates or replaces objects, each with a revision of its own. */
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

  /** Removes objects of the same kind and name; those that are not there are no error. */
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

  /** Objects in the order of their keys. */
  list(resource: Resource): readonly ApiObject[] {
    const stored = this.#objectsOf(resource);
    const keys = this.#sortedKeys.get(resource) ?? [...stored.keys()].sort();
    this.#sortedKeys.set(resource, keys);
    return keys.flatMap((key) => stored.get(key) ?? []);
  }

  /** The changes after a revision; `undefined` when they are no longer known. */
  since(revision: number): readonly StoreEvent[] | undefined {
    if (revision < this.#oldestRevision) return undefined;
    return this.#history.filter((event) => event.revision > revision);
  }

  /** Forgets all history: watches from older revisions get 410. */
  compact(): void {
    this.#revision += 1;
    this.#oldestRevision = this.#revision;
    this.#history = [];
  }

  /** Calls back for each change from now on; the result ends it. */
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
