/** Splits the concatenated replies to many dumps. Each reply has the sequence number of its request. */
import type { ByteReader } from "./byte-reader.ts";
import { messagesOf } from "./message.ts";
import { messageFlags, messageTypes } from "./netlink-package.ts";
import { decodeOutcome, endsRequest, type Reply } from "./reply.ts";

/**
 * Yields the reply to each request, in the order of the requests; a last reply that is incomplete is not yielded.
 * Messages with other sequence numbers are late replies to requests that timed out. Throws DecodeError.
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
