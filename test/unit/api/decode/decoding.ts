import { decodeObject, type RecordOf } from "../../../../src/api/decode/decode-object.ts";
import { TextPool } from "../../../../src/api/decode/flat-text.ts";
import type { Refusal, ResourceKind } from "../../../../src/api/source.ts";

/** The result of decoding one object. */
export interface Decoding<T> {
  readonly record: T | undefined;
  readonly refusals: readonly Refusal[];
  /** `field reason` for each rejection. */
  readonly reasons: readonly string[];
}

/** Decodes one object after converting it to JSON and back, as if it had been received. */
export function decode<Kind extends ResourceKind>(
  kind: Kind,
  object: unknown,
): Decoding<RecordOf[Kind]> {
  const refusals: Refusal[] = [];
  const refuse = (refusal: Refusal): void => void refusals.push(refusal);
  const decoded = decodeObject(kind, object, { refuse, texts: new TextPool() });
  const reasons = refusals.map(({ field, reason }) => `${field} ${reason}`.trim());
  return { record: decoded?.record, refusals, reasons };
}
