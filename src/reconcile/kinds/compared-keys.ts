/** How the keys of desired and cached state are gone through. */

/** All values of `first`, then those of `second` that are not in the first: no copy of either is made. */
export function* union<T>(
  first: Iterable<T>,
  second: Iterable<T>,
  isInFirst: (value: T) => boolean,
): Generator<T> {
  yield* first;
  for (const value of second) if (!isInFirst(value)) yield value;
}

/** Yielding after each costs more than the comparison itself, and has the engine compile the loop that is yielded to. */
export const comparedPerPiece = 16;
