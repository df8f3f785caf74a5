/** Values that the arbitraries of this folder share. */
import fc from "fast-check";

export type Fields = Readonly<Record<string, unknown>>;

/** The first Service is the one through which pods reach the API servers, so its endpoints are reserved. */
export const serviceNames = ["kubernetes", "a", "b", "c", "d", "e", "f"] as const;

/** The same names are used in all namespaces, so that a test detects confusion between them. */
export const namespaces: fc.Arbitrary<string> = mostly(["default"], ["other"]);

/** Generates a value or `undefined`. */
export function sometimes<T>(values: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.option(values, { nil: undefined, freq: 2 });
}

/** Generates mostly usual values, and sometimes an odd one. */
export function mostly<T>(usual: readonly T[], odd: readonly T[]): fc.Arbitrary<T> {
  return fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.constantFrom(...odd) },
  );
}

/** Omits undefined fields, because an absent field differs from an empty one. */
export function present(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
