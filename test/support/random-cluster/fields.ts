/** Words that the arbitraries of this folder share. */
import fc from "fast-check";

export type Fields = Readonly<Record<string, unknown>>;

/** The first is the one through which pods reach the API servers: its endpoints are reserved. */
export const serviceNames = ["kubernetes", "a", "b", "c", "d", "e", "f"] as const;

/** Names are used in both: what is another object must not be taken for the same one. */
export const namespaces: fc.Arbitrary<string> = mostly(["default"], ["other"]);

/** A value now and then, else `undefined`. */
export function sometimes<T>(values: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.option(values, { nil: undefined, freq: 2 });
}

/** One of the usual values; of the odd ones now and then. */
export function mostly<T>(usual: readonly T[], odd: readonly T[]): fc.Arbitrary<T> {
  return fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.constantFrom(...odd) },
  );
}

/** Leaves out what is undefined: an absent field is not an empty one. */
export function present(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
