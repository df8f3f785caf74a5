/** Iterates over desired and cached keys. */

/** Yields all values of `first`, then the values of `second` that are not in `first`, without copying either. */
export function* union<T>(
  first: Iterable<T>,
  second: Iterable<T>,
  isInFirst: (value: T) => boolean,
): Generator<T> {
  yield* first;
  for (const value of second) if (!isInFirst(value)) yield value;
}

/**
 * Number of comparisons between two yields. Yielding after each comparison would cost more than the comparisons
 * themselves.
 */
export const comparedPerPiece = 16;
