/** Reading fields of values that came from outside. Nothing here throws, whatever the value. */
import { none, sharedIfEmpty } from "../../base/none.ts";
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

/** Nobody wants to read more of the key of a map. */
const longestKey = 256;

/** A value of an object that is being decoded, which knows its place in it. The place is written out only for a refusal. */
export class Untrusted {
  readonly value: unknown;
  readonly scope: DecodeScope;
  /** Undefined for the whole object. */
  readonly #parent: Untrusted | undefined;
  /** Name of a field, key of a map, or index of a list. */
  readonly #step: string | number;

  constructor(scope: DecodeScope, value: unknown, parent?: Untrusted, step: string | number = "") {
    this.scope = scope;
    this.value = value;
    this.#parent = parent;
    this.#step = step;
  }

  /** `spec.ports[1].port`; empty for the whole object. */
  get path(): string {
    if (this.#parent === undefined) return "";
    const before = this.#parent.path;
    const step = String(this.#step);
    // Indexes, and keys as labels and annotations have them.
    if (!/^[a-z]\w*$/i.test(step)) return `${before}[${step.slice(0, longestKey)}]`;
    return before === "" ? step : `${before}.${step}`;
  }

  /** True for absent and for null, which the API treats alike. */
  get isAbsent(): boolean {
    return isAbsent(this.value);
  }

  /** A field, or what a map has under a key; absent where this is no object. */
  field(name: string): Untrusted {
    return new Untrusted(this.scope, fieldOf(this.value, name), this, name);
  }

  /** A field of a field: `object.at("spec", "clusterIP")`. */
  at(...names: readonly string[]): Untrusted {
    let found: Untrusted = this;
    for (const name of names) found = found.field(name);
    return found;
  }

  /** The bare value of a field. */
  valueAt(name: string): unknown {
    return fieldOf(this.value, name);
  }

  /** An element of a list, absent where this is none. */
  item(index: number): Untrusted {
    const value: unknown = Array.isArray(this.value) ? this.value[index] : undefined;
    return new Untrusted(this.scope, value, this, index);
  }

  /** The elements of a list; none when it is absent, a refusal when it is something else. */
  items(): readonly Untrusted[] {
    const { value } = this;
    if (Array.isArray(value)) {
      const items: Untrusted[] = [];
      for (const [index, item] of value.entries())
        items.push(new Untrusted(this.scope, item, this, index));
      return items;
    }
    if (!this.isAbsent) this.refuse("not-a-list");
    return none;
  }

  /** {@link readEach} of the elements of a list. */
  each<T>(read: (item: Untrusted) => T | undefined): readonly T[] {
    return readEach(this.items(), read);
  }

  /** Another value in this place. */
  with(value: unknown): Untrusted {
    return new Untrusted(this.scope, value, this.#parent, this.#step);
  }

  /** One flat string for equal texts. */
  intern(text: string): string {
    return this.scope.texts.intern(text);
  }

  /** Reports that this is left out; its `undefined` lets callers write `return given.refuse(…)`. */
  refuse(reason: RefusalReason): undefined {
    const { kind, subject, refuse } = this.scope;
    refuse(refusal({ kind, subject, field: this.path, reason, value: this.value }));
  }

  /** Reports that the whole object is left out, since nothing in it remains that could be used. */
  refuseWhole(reason: RefusalReason): undefined {
    const { kind, subject, refuse } = this.scope;
    refuse(refusal({ kind, subject, field: "", reason }));
  }
}

/** What `read` makes of each item, without those of which it makes nothing. */
export function readEach<T>(
  items: readonly Untrusted[],
  read: (item: Untrusted) => T | undefined,
): readonly T[] {
  if (items.length === 0) return none;
  const kept: T[] = [];
  for (const item of items) {
    const result = read(item);
    if (result !== undefined) kept.push(result);
  }
  // A copy has no spare capacity; a list grown by push keeps half as much again.
  return sharedIfEmpty(kept.slice());
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

/**
 * A text of a fixed choice. Absent and empty give `absent`; anything else that is not among `choices` is
 * refused and gives `undefined`.
 */
export function choiceIn<Choice extends string>(
  given: Untrusted,
  name: string,
  rule: {
    readonly choices: readonly Choice[];
    readonly absent: Choice;
    readonly reason: RefusalReason;
  },
): Choice | undefined {
  const value = given.valueAt(name);
  if (isAbsent(value) || value === "") return rule.absent;
  const choice = rule.choices.find((candidate) => candidate === value);
  return choice ?? given.field(name).refuse(rule.reason);
}

const printableLabel = /^[\p{L}\p{N}\p{P}\p{S} ]{0,253}$/u;

/** A label value, node or zone name for comparing: pooled; `undefined` when absent or refused. */
export function labelTextIn(given: Untrusted, name: string): string | undefined {
  const value = given.valueAt(name);
  if (isAbsent(value)) return undefined;
  if (typeof value === "string" && printableLabel.test(value)) return given.intern(value);
  return given.field(name).refuse("invalid-label");
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Milliseconds since the epoch of an RFC 3339 time; `undefined` when it is none. Pure. */
export function timeMsOf(value: unknown): number | undefined {
  if (typeof value !== "string" || !rfc3339.test(value)) return undefined;
  const timeMs = Date.parse(value);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}
