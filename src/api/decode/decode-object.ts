import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "../objects.ts";
import type { Refusal, ResourceKind } from "../source.ts";
import { decodeEndpointSlice } from "./endpoint-slice.ts";
import { type DecodeContext, Untrusted } from "./fields.ts";
import { identityOf, type ObjectIdentity } from "./identity.ts";
import { decodeNode } from "./node.ts";
import { decodeService } from "./service.ts";

/** The record type of each kind. */
export interface RecordOf {
  readonly services: ServiceRecord;
  readonly endpointslices: EndpointSliceRecord;
  readonly nodes: NodeRecord;
}

/** Narrows an object whose identity is known; `undefined`: there is nothing to use in it. */
export type Decoder<T> = (object: Untrusted, identity: ObjectIdentity) => T | undefined;

const decoders: { readonly [Kind in ResourceKind]: Decoder<RecordOf[Kind]> } = {
  services: decodeService,
  endpointslices: decodeEndpointSlice,
  nodes: decodeNode,
};

/** An object that has a name; without a record there is nothing to use in it. */
export interface DecodedObject<T> {
  readonly identity: ObjectIdentity;
  readonly record: T | undefined;
}

/**
 * Narrows anything to a record of `kind`. Never throws; what is invalid is reported to `refuse` and left out.
 * `undefined` when the object cannot even be named.
 */
export function decodeObject<Kind extends ResourceKind>(
  kind: Kind,
  object: unknown,
  into: DecodeContext,
): DecodedObject<RecordOf[Kind]> | undefined {
  return decodeWith(decoders[kind], kind, object, into);
}

/** As {@link decodeObject}, for records that only makers of endpoints read. */
export function decodeWith<T>(
  decode: Decoder<T>,
  kind: Refusal["kind"],
  object: unknown,
  into: DecodeContext,
): DecodedObject<T> | undefined {
  const identity = identityOf(kind, object, into.refuse);
  if (identity === undefined) return undefined;
  const scope = { kind, subject: identity.name, ...into };
  return { identity, record: decode(new Untrusted(scope, object), identity) };
}
