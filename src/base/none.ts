/** The one empty list: records are many, and most of their lists are empty. */
export const none: readonly never[] = Object.freeze([]);

/** The list itself, or `none` in place of an empty one. */
export function sharedIfEmpty<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? none : list;
}
