/** Groups entry changes into messages. Pure. */
import { errno } from "../../base/errno.ts";
import { errorText } from "../../base/error-text.ts";
import { NetlinkError } from "../../netlink/errors.ts";
import type { EntryChange, FailedChange } from "../kernel.ts";
import type { EntryValues } from "./attributes.ts";
import { maxEntriesPerMessage } from "./constants.ts";
import { entryValues } from "./entry.ts";
import { rejectedPosition, type SetRequest } from "./requests.ts";

type EntryRequest = SetRequest & { readonly command: "add" | "remove" };

/** One message, and the changes that it contains. */
export interface SetMessage {
  readonly request: EntryRequest;
  /** Indices in the list of changes, one per entry of the request. */
  readonly indices: readonly number[];
}

interface OpenMessage {
  readonly change: EntryChange;
  readonly entries: EntryValues[];
  readonly indices: number[];
}

/**
 * Combines consecutive changes of the same kind to the same set into one message. Entries that do not fit the set type
 * are not sent, and are returned as failures.
 */
export function groupChanges(changes: readonly EntryChange[]): {
  readonly messages: readonly SetMessage[];
  readonly unusable: readonly FailedChange[];
} {
  const open: OpenMessage[] = [];
  const unusable: FailedChange[] = [];
  for (const [index, change] of changes.entries()) {
    const values = readEntry(change);
    if (values instanceof Error) {
      unusable.push({ index, error: values });
      continue;
    }
    let message = open.at(-1);
    if (message === undefined || !hasRoomFor(message, change)) {
      message = { change, entries: [], indices: [] };
      open.push(message);
    }
    message.entries.push(values);
    message.indices.push(index);
  }
  return { messages: open.map(close), unusable };
}

/**
 * Returns the messages to resend after a rejection. They contain, for each affected set, the change of the rejected
 * entry and all later ones, in order and one per message.
 */
export function singleChanges(
  messages: readonly SetMessage[],
  rejected: readonly { readonly message: SetMessage; readonly error: NetlinkError }[],
): readonly SetMessage[] {
  const errorOf = new Map(rejected.map(({ message, error }) => [message, error]));
  const concernedSets = new Set<string>();
  return messages.flatMap((message) => {
    const error = errorOf.get(message);
    const setName = message.request.set.name;
    if (concernedSets.has(setName)) return splitFrom(message, 0);
    if (error === undefined) return [];
    concernedSets.add(setName);
    return splitFrom(message, (rejectedPosition(error.echo) ?? 1) - 1);
  });
}

function readEntry(change: EntryChange): EntryValues | Error {
  try {
    return entryValues(change.set.type, change.entry);
  } catch (error) {
    return invalidEntry(change, error);
  }
}

/** The error for an entry that does not fit the set type. */
export function invalidEntry({ set, entry, kind }: EntryChange, error: unknown): NetlinkError {
  return new NetlinkError({
    operation: kind === "entry-add" ? "add to set" : "remove from set",
    subject: `${set.name}: ${entry}`,
    errno: errno.EINVAL,
    meaning: errorText(error),
  });
}

function hasRoomFor({ change, entries }: OpenMessage, { kind, set }: EntryChange): boolean {
  return (
    change.kind === kind &&
    change.set.name === set.name &&
    change.set.type === set.type &&
    entries.length < maxEntriesPerMessage
  );
}

function close({ change, entries, indices }: OpenMessage): SetMessage {
  const { kind, set } = change;
  return { request: { command: kind === "entry-add" ? "add" : "remove", set, entries }, indices };
}

function splitFrom(message: SetMessage, first: number): readonly SetMessage[] {
  const { request, indices } = message;
  return request.entries.slice(first).map((values, offset) => ({
    request: { ...request, entries: [values] },
    indices: indices.slice(first + offset, first + offset + 1),
  }));
}
