/** A shared empty list, which saves memory: there are many records, and most of their lists are empty. */
export const none: readonly never[] = Object.freeze([]);

/** Returns the list, or {@link none} if it is empty. */
export function sharedIfEmpty<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? none : list;
}
