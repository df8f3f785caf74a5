import { type DecodedObject, decodeObject, type RecordOf } from "../decode/decode-object.ts";
import type { DecodeContext } from "../decode/fields.ts";
import { type Notify, notifyOf } from "../last-known-records.ts";
import type { Refuse } from "../refusals.ts";
import type { ListQuarantine, ResourceKind, ServedAddresses, SourceListener } from "../source.ts";
import type { WatchedResource } from "./watched-resources.ts";

/** What becomes of the objects of one resource: how they turn into records, and who is notified. */
export interface ReflectorTarget<T> {
  /** Narrows an object; `undefined` when it cannot even be named. Never throws. */
  decode(object: unknown, into: DecodeContext): DecodedObject<T> | undefined;
  readonly notify: Notify<T>;
  /** By which keys a list is judged by the relist guard: addresses, names. */
  readonly keysOf: (record: T) => readonly string[];
  /** Reads what the first list is compared with; absent: nothing. */
  readonly servedBefore?: (() => Promise<ReadonlySet<string>>) | undefined;
  readonly onSynced: () => void;
  readonly onRefusal: Refuse;
  readonly onListQuarantine: (quarantine: Omit<ListQuarantine, "kind">) => void;
}

/** By which addresses a list is judged. There is one Node; to lose it takes away nothing that is served. */
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

/** The listener of a node's daemon as the target of one of its resources. */
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
