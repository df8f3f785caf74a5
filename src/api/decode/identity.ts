import { printableText, type RefusalReason, type Refuse, refusal } from "../refusals.ts";
import type { Refusal } from "../source.ts";
import { fieldOf, isAbsent } from "./fields.ts";
import { flatText } from "./flat-text.ts";

export interface ObjectIdentity {
  /** `namespace/name`, or `name` for a Node. */
  readonly name: string;
  /** Empty if the object has no namespace. */
  readonly namespace: string;
}

/** Accepts more than DNS names, but only characters that are safe in keys, log lines and rule comments. */
const safeName = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,252}$/;

/** Whether a name is safe as part of a key, a log line or a rule comment. Pure. */
export function isSafeName(value: unknown): value is string {
  return typeof value === "string" && safeName.test(value);
}

/** Reads an object's name and namespace. If they are not safe, reports them as invalid and returns `undefined`. */
export function identityOf(
  kind: Refusal["kind"],
  object: unknown,
  refuse: Refuse,
): ObjectIdentity | undefined {
  const metadata = fieldOf(object, "metadata");
  const name = fieldOf(metadata, "name");
  const namespace = kind === "nodes" ? "" : fieldOf(metadata, "namespace");
  const refuseField = (field: string, reason: RefusalReason, value: unknown): undefined => {
    refuse(refusal({ kind, subject: spokenName(name, namespace), field, reason, value }));
  };
  if (!isObject(object)) return refuseField("", "not-an-object", object);
  if (!isObject(metadata)) return refuseField("metadata", "not-an-object", metadata);
  if (!isSafeName(name)) return refuseField("metadata.name", "invalid-name", name);
  if (kind === "nodes") return { name: flatText(name), namespace: "" };
  if (!isSafeName(namespace)) return refuseField("metadata.namespace", "invalid-name", namespace);
  return { name: flatText(`${namespace}/${name}`), namespace };
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

/** Formats the available parts of a name for messages. */
function spokenName(name: unknown, namespace: unknown): string {
  if (isAbsent(name) && isAbsent(namespace)) return "(unnamed)";
  return namespace === "" ? spoken(name) : `${spoken(namespace)}/${spoken(name)}`;
}

function spoken(part: unknown): string {
  if (typeof part === "string") return printableText(part);
  return isAbsent(part) ? "" : "?";
}
