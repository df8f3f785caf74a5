/** Reading fields of values that came from outside. Nothing here throws, whatever the value. */
import { type RefusalReason, type Refuse, refusal } from "../refusals.ts";
import type { Refusal } from "../source.ts";
import type { TextPool } from "./flat-text.ts";

/** What decoding needs beside the object: where refusals are reported, where strings are interned, whose Services count. */
export interface DecodeContext {
  readonly refuse: Refuse;
  readonly texts: TextPool;
  /** The value of service.kubernetes.io/service-proxy-name; absent: Services without this label. */
  readonly serviceProxyName?: string | undefined;
}

/** The object that is being decoded. */
export interface DecodeScope extends DecodeContext {
  readonly kind: Refusal["kind"];
  /** `namespace/name`. */
  readonly subject: string;
}

/** Reports that a part is left out; its `undefined` lets callers write `return refusePart(…)`. */
export function refusePart(
  scope: DecodeScope,
  field: string,
  reason: RefusalReason,
  value: unknown,
): undefined {
  const { kind, subject } = scope;
  scope.refuse(refusal({ kind, subject, field, reason, value }));
}

/** Reports that the whole object is left out, since nothing in it remains that could be used. */
export function refuseWhole(scope: DecodeScope, reason: RefusalReason): undefined {
  const { kind, subject } = scope;
  scope.refuse(refusal({ kind, subject, field: "", reason }));
}

/** An own field of an object; `undefined` for everything else, also for inherited names. */
export function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[name];
}

/** A field of a field: `pathOf(object, "spec", "clusterIP")`. */
export function pathOf(value: unknown, ...names: readonly string[]): unknown {
  return names.reduce(fieldOf, value);
}

/** True for absent and for null, which the API treats alike. */
export function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

/** The elements of a list; none when it is absent, a refusal when it is something else. */
export function listAt(scope: DecodeScope, value: unknown, field: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (!isAbsent(value)) refusePart(scope, field, "not-a-list", value);
  return [];
}

/**
 * A text of a fixed choice. Absent and empty give `absent`; anything else that is not among `choices` is
 * refused and gives `undefined`.
 */
export function choiceAt<Choice extends string>(
  scope: DecodeScope,
  value: unknown,
  field: string,
  rule: {
    readonly choices: readonly Choice[];
    readonly absent: Choice;
    readonly reason: RefusalReason;
  },
): Choice | undefined {
  if (isAbsent(value) || value === "") return rule.absent;
  const choice = rule.choices.find((candidate) => candidate === value);
  return choice ?? refusePart(scope, field, rule.reason, value);
}

const printableLabel = /^[\p{L}\p{N}\p{P}\p{S} ]{0,253}$/u;

/** A label value, node or zone name for comparing: pooled; `undefined` when absent or refused. */
export function labelTextAt(scope: DecodeScope, value: unknown, field: string): string | undefined {
  if (isAbsent(value)) return undefined;
  if (typeof value === "string" && printableLabel.test(value)) return scope.texts.intern(value);
  return refusePart(scope, field, "invalid-label", value);
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Milliseconds since the epoch of an RFC 3339 time; `undefined` when it is none. Pure. */
export function timeMsOf(value: unknown): number | undefined {
  if (typeof value !== "string" || !rfc3339.test(value)) return undefined;
  const timeMs = Date.parse(value);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}
