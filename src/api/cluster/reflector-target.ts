import { type DecodedObject, decodeObject, type RecordOf } from "../decode/decode-object.ts";
import type { DecodeContext } from "../decode/fields.ts";
import { type Notify, notifyOf } from "../last-known-records.ts";
import type { Refuse } from "../refusals.ts";
import type { ListQuarantine, ResourceKind, ServedAddresses, SourceListener } from "../source.ts";
import type { WatchedResource } from "./watched-resources.ts";

/** Decodes the objects of one resource into records, and receives the notifications. */
export interface ReflectorTarget<T> {
  /** Decodes an object. `undefined` if the object does not have a valid name. Never throws. */
  decode(object: unknown, into: DecodeContext): DecodedObject<T> | undefined;
  readonly notify: Notify<T>;
  /** Keys that the relist guard compares, such as addresses or names. */
  readonly keysOf: (record: T) => readonly string[];
  /** Reads the keys that the node served before startup. The first list is also compared with these keys. */
  readonly servedBefore?: (() => Promise<ReadonlySet<string>>) | undefined;
  readonly onSynced: () => void;
  readonly onRefusal: Refuse;
  readonly onListQuarantine: (quarantine: Omit<ListQuarantine, "kind">) => void;
}

/**
 * Addresses that the relist guard compares. Nodes have none, because losing the single watched Node removes nothing
 * that is served.
 */
const addressesOf: {
  readonly [Kind in ResourceKind]: (record: RecordOf[Kind]) => readonly string[];
} = {
  services: ({ clusterIps, externalIps, loadBalancerIps }) => [
    ...clusterIps,
    ...externalIps,
    ...loadBalancerIps,
  ],
  endpointslices: ({ endpoints }) => endpoints.map(({ address }) => address),
  nodes: () => [],
};

/** Adapts the node daemon's listener to one of its resources. */
export function listenerTarget<Kind extends ResourceKind>(
  { kind }: WatchedResource<Kind>,
  listener: SourceListener,
  servedBefore?: ServedAddresses,
): ReflectorTarget<RecordOf[Kind]> {
  const served: { readonly [Of in ResourceKind]?: () => Promise<ReadonlySet<string>> } =
    servedBefore ?? {};
  return {
    decode: (object, into) => decodeObject(kind, object, into),
    notify: notifyOf(listener)[kind],
    keysOf: addressesOf[kind],
    servedBefore: served[kind],
    onSynced: () => listener.onSynced(kind),
    onRefusal: (refused) => listener.onRefusal(refused),
    onListQuarantine: (quarantine) => listener.onListQuarantine?.({ kind, ...quarantine }),
  };
}
