/** Set element changes as messages. Pure. */
import type { NetlinkError } from "../../netlink/errors.ts";
import { isNotFound } from "../../netlink/errors.ts";
import type { EntryChange } from "../kernel.ts";
import type { NftMessage } from "./message.ts";
import { changeElements, entriesPerMessage } from "./set-messages.ts";

export interface ElementChange extends EntryChange {
  /** Index in the caller's list. */
  readonly index: number;
}

/** One message and the changes in it. */
export interface ElementGroup {
  readonly message: NftMessage;
  readonly changes: readonly ElementChange[];
}

/** Combines consecutive changes of the same kind to the same set into one message. */
export function groupElements(changes: readonly ElementChange[]): readonly ElementGroup[] {
  const groups: ElementChange[][] = [];
  for (const change of changes) {
    const open = groups.at(-1);
    if (open?.[0] !== undefined && hasRoomFor(open, open[0], change)) open.push(change);
    else groups.push([change]);
  }
  return groups.flatMap((group) => (group[0] === undefined ? [] : [groupOf(group[0], group)]));
}

function hasRoomFor(
  group: readonly ElementChange[],
  { kind, set }: ElementChange,
  change: ElementChange,
): boolean {
  return (
    change.kind === kind &&
    change.set.name === set.name &&
    change.set.family === set.family &&
    group.length < entriesPerMessage
  );
}

function groupOf(
  { kind, set, entry }: ElementChange,
  changes: readonly ElementChange[],
): ElementGroup {
  const text = changes.length === 1 ? entry : `${entry} and ${changes.length - 1} more`;
  return { message: changeElements(kind, set, changes, text), changes };
}

/**
 * The messages to resend after a rejection, which affects the whole transaction. Each change of a rejected message is
 * resent in a separate message, so that the next reply identifies the rejected change. A rejected change that was alone
 * in its message is passed to `fail`.
 */
export function withoutRejected(
  groups: readonly ElementGroup[],
  rejected: readonly { readonly index: number; readonly error: NetlinkError }[],
  fail: (change: ElementChange, error: NetlinkError) => void,
): readonly ElementGroup[] {
  const errors = new Map(rejected.map(({ index, error }) => [index, error]));
  return groups.flatMap((group, index) => {
    const error = errors.get(index);
    if (error === undefined) return [group];
    const [first, ...others] = group.changes;
    if (first === undefined) return [];
    if (others.length > 0) return group.changes.map((change) => groupOf(change, [change]));
    // Removing an entry succeeds if the entry or the whole set does not exist.
    if (first.kind === "entry-add" || !isNotFound(error)) fail(first, error);
    return [];
  });
}
