/** Reads fields from untrusted values. No function here throws. */
import { none, sharedIfEmpty } from "../../base/none.ts";
import { type RefusalReason, type Refuse, refusal } from "../refusals.ts";
import type { Refusal } from "../source.ts";
import type { TextPool } from "./flat-text.ts";

/** Decoding context besides the object: the refusal callback, the string pool, and which Services to proxy. */
export interface DecodeContext {
  readonly refuse: Refuse;
  readonly texts: TextPool;
  /**
   * Only Services whose label service.kubernetes.io/service-proxy-name has this value are proxied. If absent, only
   * Services without this label are proxied.
   */
  readonly serviceProxyName?: string | undefined;
}

/** The object being decoded. */
export interface DecodeScope extends DecodeContext {
  readonly kind: Refusal["kind"];
  /** `namespace/name`. */
  readonly subject: string;
}

/** Longer map keys are truncated in messages. */
const longestKey = 256;

/** A value in the object being decoded, with its position. The path is built only if the value is invalid. */
export class Untrusted {
  readonly value: unknown;
  readonly scope: DecodeScope;
  /** Undefined for the object itself. */
  readonly #parent: Untrusted | undefined;
  /** Field name, map key or list index. */
  readonly #step: string | number;

  constructor(scope: DecodeScope, value: unknown, parent?: Untrusted, step: string | number = "") {
    this.scope = scope;
    this.value = value;
    this.#parent = parent;
    this.#step = step;
  }

  /** Path such as `spec.ports[1].port`. Empty for the object itself. */
  get path(): string {
    if (this.#parent === undefined) return "";
    const before = this.#parent.path;
    const step = String(this.#step);
    // List indexes are in brackets. So are map keys that are not identifiers, such as kube-ipvs.io/weights.
    if (!/^[a-z]\w*$/i.test(step)) return `${before}[${step.slice(0, longestKey)}]`;
    return before === "" ? step : `${before}.${step}`;
  }

  /** Whether the value is absent or null, which the API treats alike. */
  get isAbsent(): boolean {
    return isAbsent(this.value);
  }

  /** A field, or the value of a map key. Absent if this value is not an object. */
  field(name: string): Untrusted {
    return new Untrusted(this.scope, fieldOf(this.value, name), this, name);
  }

  /** A nested field, such as `object.at("spec", "clusterIP")`. */
  at(...names: readonly string[]): Untrusted {
    let found: Untrusted = this;
    for (const name of names) found = found.field(name);
    return found;
  }

  /** The value of a field without its position. */
  valueAt(name: string): unknown {
    return fieldOf(this.value, name);
  }

  /** A list element. Absent if this value is not a list or has no such element. */
  item(index: number): Untrusted {
    const value: unknown = Array.isArray(this.value) ? this.value[index] : undefined;
    return new Untrusted(this.scope, value, this, index);
  }

  /** The elements of a list. Empty if the list is absent. Any other value is reported as invalid. */
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

  /** Applies {@link readEach} to the elements of a list. */
  each<T>(read: (item: Untrusted) => T | undefined): readonly T[] {
    return readEach(this.items(), read);
  }

  /** A different value at the same position. */
  with(value: unknown): Untrusted {
    return new Untrusted(this.scope, value, this.#parent, this.#step);
  }

  /** Returns the interned copy of a text. */
  intern(text: string): string {
    return this.scope.texts.intern(text);
  }

  /** Reports that this value is ignored. Returns `undefined`, so that callers can write `return given.refuse(…)`. */
  refuse(reason: RefusalReason): undefined {
    const { kind, subject, refuse } = this.scope;
    refuse(refusal({ kind, subject, field: this.path, reason, value: this.value }));
  }

  /** Reports that the whole object is ignored because nothing usable remains. */
  refuseWhole(reason: RefusalReason): undefined {
    const { kind, subject, refuse } = this.scope;
    refuse(refusal({ kind, subject, field: "", reason }));
  }
}

/** Collects the results of `read`, except `undefined`. */
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
  // The copy has no spare capacity. A list grown by push keeps up to 50% more.
  return sharedIfEmpty(kept.slice());
}

/** An own field of an object. `undefined` for other values and for inherited names. */
export function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[name];
}

/** A nested field, such as `pathOf(object, "spec", "clusterIP")`. */
export function pathOf(value: unknown, ...names: readonly string[]): unknown {
  return names.reduce(fieldOf, value);
}

/** Whether the value is absent or null, which the API treats alike. */
export function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

/**
 * Reads one of several fixed texts. Absent and empty values yield `rule.absent`. Other values are reported as invalid
 * and yield `undefined`.
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

/** Reads and interns a label value, node name or zone name. `undefined` if absent or invalid. */
export function labelTextIn(given: Untrusted, name: string): string | undefined {
  const value = given.valueAt(name);
  if (isAbsent(value)) return undefined;
  if (typeof value === "string" && printableLabel.test(value)) return given.intern(value);
  return given.field(name).refuse("invalid-label");
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Converts an RFC 3339 time to milliseconds since the epoch. `undefined` if the value is not such a time. Pure. */
export function timeMsOf(value: unknown): number | undefined {
  if (typeof value !== "string" || !rfc3339.test(value)) return undefined;
  const timeMs = Date.parse(value);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}
