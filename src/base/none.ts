/** A shared empty list. Sharing it saves memory, because most lists in records are empty. */
export const none: readonly never[] = Object.freeze([]);

/** Returns the list, or {@link none} if it is empty. */
export function sharedIfEmpty<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? none : list;
}
