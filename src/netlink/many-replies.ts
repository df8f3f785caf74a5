/** The replies to many dumps, which came one behind the other, each with the sequence number of its request. */
import type { ByteReader } from "./byte-reader.ts";
import { messagesOf } from "./message.ts";
import { messageFlags, messageTypes } from "./netlink-package.ts";
import { decodeOutcome, endsRequest, type Reply } from "./reply.ts";

/**
 * What came for each request, in their order, as far as they were answered to the end. Messages of other sequence
 * numbers are late replies to requests that were given up. Throws DecodeError.
 */
export function* repliesOf(
  bytes: Uint8Array,
  firstSequence: number,
): Generator<Reply<ByteReader>, void, undefined> {
  let sequence = firstSequence;
  let values: ByteReader[] = [];
  let isInterrupted = false;
  for (const message of messagesOf(bytes)) {
    if (message.sequence !== sequence || message.type === messageTypes.noop) continue;
    if ((message.flags & messageFlags.dumpInterrupted) !== 0) isInterrupted = true;
    if (!endsRequest(message)) {
      values.push(message.body);
      continue;
    }
    yield { values, outcome: decodeOutcome(message), isInterrupted };
    sequence = (sequence + 1) >>> 0;
    values = [];
    isInterrupted = false;
  }
}
