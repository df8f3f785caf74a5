import { decodeObject, type RecordOf } from "../../src/api/decode/decode-object.ts";
import { TextPool } from "../../src/api/decode/flat-text.ts";
import type { ObjectSource, ResourceKind, SourceListener } from "../../src/api/source.ts";

/** The fields of an API object that identify it. */
export interface NamedObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

const kindsByName: Readonly<Record<string, ResourceKind>> = {
  Service: "services",
  EndpointSlice: "endpointslices",
  Node: "nodes",
};

/** Objects in memory that the real decoders decode. Changes are reported immediately. */
export class MemorySource implements ObjectSource {
  readonly #objects = new Map<string, NamedObject>();
  readonly #records = new Map<string, RecordOf[ResourceKind]>();
  readonly #texts = new TextPool();
  #listener: SourceListener | undefined;

  async start(listener: SourceListener): Promise<void> {
    this.#listener = listener;
    // A new program does not know the objects that were reported to its predecessor.
    this.#records.clear();
    for (const object of this.#objects.values()) this.#report(object, object);
    for (const kind of Object.values(kindsByName)) listener.onSynced(kind);
  }

  async stop(): Promise<void> {
    this.#listener = undefined;
  }

  /** The objects in creation order. */
  objects(): readonly NamedObject[] {
    return [...this.#objects.values()];
  }

  apply(...objects: readonly NamedObject[]): void {
    for (const object of objects) {
      this.#objects.set(objectKey(object), object);
      this.#report(object, object);
    }
  }

  delete(...objects: readonly NamedObject[]): void {
    for (const object of objects) {
      this.#objects.delete(objectKey(object));
      this.#report(object, undefined);
    }
  }

  /** Reports all Nodes, as a folder of manifests does. */
  reportNodes(...nodes: readonly NamedObject[]): void {
    const into = { refuse: () => {}, texts: this.#texts };
    const records = nodes.flatMap((node) => decodeObject("nodes", node, into)?.record ?? []);
    this.#listener?.onNodes?.(new Map(records.map((record) => [record.name, record])));
  }

  #report(named: NamedObject, current: NamedObject | undefined): void {
    const listener = this.#listener;
    const kind = kindsByName[named.kind];
    if (listener === undefined || kind === undefined) return;
    const key = objectKey(named);
    const previous = this.#records.get(key);
    const into = { refuse: listener.onRefusal.bind(listener), texts: this.#texts };
    const record = current === undefined ? undefined : decodeObject(kind, current, into)?.record;
    if (record === undefined) this.#records.delete(key);
    else this.#records.set(key, record);
    if (record !== undefined || previous !== undefined) tell(listener, kind, previous, record);
  }
}

function tell(
  listener: SourceListener,
  kind: ResourceKind,
  previous: unknown,
  current: unknown,
): void {
  const callbacks = {
    services: listener.onService,
    endpointslices: listener.onEndpointSlice,
    nodes: listener.onNode,
  };
  const callback = callbacks[kind] as (previous: unknown, current: unknown) => void;
  callback.call(listener, previous, current);
}

/** An object's key: kind, namespace and name. */
export function objectKey({ kind, metadata }: NamedObject): string {
  return `${kind} ${metadata.namespace ?? (kind === "Node" ? "" : "default")}/${metadata.name}`;
}
