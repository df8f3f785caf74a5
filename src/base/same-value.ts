import { isRecord } from "./is-record.ts";

/** Whether two plain values (what JSON has, and undefined) are the same to their leaves; absent is not undefined. */
export function sameValue(left: unknown, right: unknown): boolean {
  if (Object.is(left, right)) return true;
  if (Array.isArray(left)) return Array.isArray(right) && sameItems(left, right);
  return isRecord(left) && isRecord(right) && sameFields(left, right);
}

type Fields = Readonly<Record<string, unknown>>;

function sameItems(left: readonly unknown[], right: readonly unknown[]): boolean {
  return left.length === right.length && left.every((item, at) => sameValue(item, right[at]));
}

function sameFields(left: Fields, right: Fields): boolean {
  const names = Object.keys(left);
  if (names.length !== Object.keys(right).length) return false;
  return names.every((name) => Object.hasOwn(right, name) && sameValue(left[name], right[name]));
}
