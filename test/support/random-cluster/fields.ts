/** Values that this folder's arbitraries share. */
import fc from "fast-check";

export type Fields = Readonly<Record<string, unknown>>;

/** Pods reach the API servers through the first Service, so its endpoints are reserved. */
export const serviceNames = ["kubernetes", "a", "b", "c", "d", "e", "f"] as const;

/** All namespaces use the same names, so that tests detect confusion between them. */
export const namespaces: fc.Arbitrary<string> = mostly(["default"], ["other"]);

/** Generates a value or `undefined`. */
export function sometimes<T>(values: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.option(values, { nil: undefined, freq: 2 });
}

/** Generates mostly typical values, and sometimes an unusual one. */
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
