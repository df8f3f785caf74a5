/** Recorded replies, grouped by request. */
import { messagesOf } from "../../src/netlink/message.ts";
import { messageTypes } from "../../src/netlink/netlink-package.ts";
import { bytesOf, type Capture } from "./captures.ts";

/** The complete reply to one request. */
export interface RecordedReply {
  readonly sequence: number;
  readonly bytes: Uint8Array;
}

/**
 * Returns, in order, the replies that end with an end message. Skips requests that the kernel answers with a single
 * message.
 */
export function repliesOf(capture: Capture): readonly RecordedReply[] {
  const received = bytesOf(capture, "received");
  const parts = new Map<number, Uint8Array[]>();
  const ended = new Set<number>();
  let offset = 0;
  for (const { type, sequence, body } of messagesOf(received)) {
    const end = offset + 16 + body.remaining;
    parts.set(sequence, [...(parts.get(sequence) ?? []), received.subarray(offset, end)]);
    if (type === messageTypes.error || type === messageTypes.done) ended.add(sequence);
    offset = (end + 3) & ~3;
  }
  return [...parts]
    .filter(([sequence]) => ended.has(sequence))
    .map(([sequence, pieces]) => ({ sequence, bytes: new Uint8Array(Buffer.concat(pieces)) }));
}
