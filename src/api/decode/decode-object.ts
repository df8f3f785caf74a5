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

/** Decodes an object whose identity is known. Returns `undefined` if the object contains nothing usable. */
export type Decoder<T> = (object: Untrusted, identity: ObjectIdentity) => T | undefined;

const decoders: { readonly [Kind in ResourceKind]: Decoder<RecordOf[Kind]> } = {
  services: decodeService,
  endpointslices: decodeEndpointSlice,
  nodes: decodeNode,
};

/** A named object. The record is undefined if the object contains nothing usable. */
export interface DecodedObject<T> {
  readonly identity: ObjectIdentity;
  readonly record: T | undefined;
}

/**
 * Decodes any value into a record of `kind`. Never throws. Invalid fields are reported to `refuse` and ignored. Returns
 * `undefined` if the object does not have a valid name.
 */
export function decodeObject<Kind extends ResourceKind>(
  kind: Kind,
  object: unknown,
  into: DecodeContext,
): DecodedObject<RecordOf[Kind]> | undefined {
  return decodeWith(decoders[kind], kind, object, into);
}

/** Like {@link decodeObject}, for records that only the endpoint controller and the manifest source use. */
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
