/** A shared empty list. It saves memory because most lists in the many records are empty. */
export const none: readonly never[] = Object.freeze([]);

/** Returns the list, or {@link none} if it is empty. */
export function sharedIfEmpty<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? none : list;
}
