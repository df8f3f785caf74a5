/** Decodes replies: acknowledgments, dump ends, and the kernel's error messages. linux/netlink.h. */
import { errno } from "../base/errno.ts";
import { text, u32 } from "./attribute-field.ts";
import { attributeSet } from "./attribute-set.ts";
import type { ByteReader } from "./byte-reader.ts";
import { DecodeError } from "./errors.ts";
import { MESSAGE_HEADER_BYTES, type Message, messagesOf } from "./message.ts";
import { transactionBegin } from "./netfilter.ts";
import { messageFlags, messageTypes } from "./netlink-package.ts";

/** The outcome of one request. */
export interface Outcome {
  /** 0 means success. */
  readonly errno: number;
  readonly kernelMessage?: string;
  /** Bytes from the start of the request's netlink header to the attribute that the kernel rejected. */
  readonly attributeOffset?: number;
  /** The rejected request without its netlink header. ipset returns it despite NETLINK_CAP_ACK. */
  readonly echo?: Uint8Array;
  /** The error applies to a whole netfilter transaction, not to one of its messages. */
  readonly isWholeTransaction?: true;
}

/** NLMSGERR_ATTR_*, linux/netlink.h. Older kernels do not send these attributes. */
const errorAttributes = attributeSet({ message: text(1), offset: u32(2) });

/** The complete reply to one request. */
export interface Reply<R> {
  readonly values: R[];
  readonly outcome: Outcome;
  /** NLM_F_DUMP_INTR: the objects changed while they were being listed. */
  readonly isInterrupted: boolean;
  /** Whether parts of a reply to an earlier request, which timed out, preceded this reply. */
  readonly followsOther: boolean;
}

/**
 * Reads the whole reply to the request with this sequence number. Throws DecodeError, including for a reply without an
 * end.
 */
export function readReply<R>(
  bytes: Uint8Array,
  sequence: number,
  decode?: (message: Message) => R | undefined,
): Reply<R> {
  const reader = new ReplyReader(sequence, decode);
  reader.take(bytes);
  return reader.finish();
}

/**
 * Reads a reply that arrives in pieces of whole messages. Messages with other sequence numbers are late replies to
 * requests that timed out. Errors thrown by `decode` are rethrown only by `finish`, so that the reply is read to its
 * end. Until then, the kernel answers no other dump on the same socket.
 */
export class ReplyReader<R> {
  readonly #sequence: number;
  readonly #decode: ((message: Message) => R | undefined) | undefined;
  readonly #values: R[] = [];
  #outcome: Outcome | undefined;
  #failure: { readonly error: unknown } | undefined;
  #isInterrupted = false;
  #followsOther = false;

  constructor(sequence: number, decode: ((message: Message) => R | undefined) | undefined) {
    this.#sequence = sequence;
    this.#decode = decode;
  }

  /** Whether the end of the reply has been received. */
  get hasEnded(): boolean {
    return this.#outcome !== undefined;
  }

  /** Reads the messages in a piece. Throws DecodeError if a message length is invalid. */
  take(piece: Uint8Array): void {
    for (const message of messagesOf(piece)) this.takeMessage(message);
  }

  /** Rethrows the error of `decode`. Throws DecodeError if the reply has no end. */
  finish(): Reply<R> {
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#outcome === undefined) throw new DecodeError("reply without an end", 0);
    return {
      ...{ values: this.#values, outcome: this.#outcome },
      ...{ isInterrupted: this.#isInterrupted, followsOther: this.#followsOther },
    };
  }

  takeMessage(message: Message): void {
    if (message.sequence !== this.#sequence) {
      this.#followsOther = true;
      return;
    }
    if (message.type === messageTypes.noop) return;
    if (hasFlag(message.flags, messageFlags.dumpInterrupted)) this.#isInterrupted = true;
    if (endsRequest(message)) {
      this.#outcome = decodeOutcome(message);
      return;
    }
    if (this.#failure === undefined) this.#takeValue(message);
  }

  #takeValue(message: Message): void {
    try {
      const value = this.#decode?.(message);
      if (value !== undefined) this.#values.push(value);
    } catch (error) {
      this.#failure = { error };
    }
  }
}

/**
 * Yields the replies to dumps with consecutive sequence numbers, in request order. Does not yield an incomplete last
 * reply. Throws DecodeError.
 */
export function* repliesOf(
  bytes: Uint8Array,
  firstSequence: number,
): Generator<Reply<ByteReader>, void, undefined> {
  let sequence = firstSequence;
  let reader = new ReplyReader(sequence, ({ body }) => body);
  for (const message of messagesOf(bytes)) {
    reader.takeMessage(message);
    if (!reader.hasEnded) continue;
    yield reader.finish();
    sequence = (sequence + 1) >>> 0;
    reader = new ReplyReader(sequence, ({ body }) => body);
  }
}

/** True for a message that ends a request: an acknowledgment, an error or the end of a dump. */
export function endsRequest(message: Message): boolean {
  return (
    message.type === messageTypes.error ||
    message.type === messageTypes.done ||
    message.type === messageTypes.overrun
  );
}

/** Decodes NLMSG_ERROR (including acknowledgments, errno 0), NLMSG_DONE or NLMSG_OVERRUN. */
export function decodeOutcome(message: Message): Outcome {
  if (message.type === messageTypes.overrun) return { errno: errno.ENOBUFS };
  return message.type === messageTypes.done ? decodeDone(message) : decodeError(message);
}

/** struct nlmsgerr: s32 negative errno, the request's header, the request itself unless capped, attributes. */
function decodeError({ flags, body }: Message): Outcome {
  const number = readErrno(body);
  const requestStart = body.offset;
  const requestBytes = body.u32("length of the rejected request");
  const requestType = body.u16("type of the rejected request");
  body.skip(MESSAGE_HEADER_BYTES - 6, "header of the rejected request");
  const echo = hasFlag(flags, messageFlags.capped) ? undefined : readEcho(body, requestBytes);
  body.align();
  if (requestBytes < MESSAGE_HEADER_BYTES) {
    throw new DecodeError(`rejected request of ${requestBytes} bytes`, requestStart);
  }
  return {
    errno: number,
    ...readExtendedAck(flags, body),
    ...(requestType === transactionBegin ? { isWholeTransaction: true } : {}),
    ...(echo === undefined ? {} : { echo }),
  };
}

/** s32 negative errno or 0, then attributes. Some dumps end without a payload. */
function decodeDone({ flags, body }: Message): Outcome {
  if (body.remaining === 0) return { errno: 0 };
  const number = readErrno(body);
  return { errno: number, ...readExtendedAck(flags, body) };
}

/** Copies the echo, so that the caller can keep it. Success acknowledgments contain no echo, capped or not. */
function readEcho(body: ByteReader, requestBytes: number): Uint8Array | undefined {
  const length = requestBytes - MESSAGE_HEADER_BYTES;
  if (length <= 0 || body.remaining === 0) return undefined;
  return body.bytes(length, "echo of the rejected request").slice();
}

function readExtendedAck(
  flags: number,
  body: ByteReader,
): Pick<Outcome, "kernelMessage" | "attributeOffset"> {
  if (!hasFlag(flags, messageFlags.acknowledgeAttributes)) return {};
  const { message = "", offset } = errorAttributes.decode(body);
  return {
    ...(message === "" ? {} : { kernelMessage: message }),
    ...(offset === undefined ? {} : { attributeOffset: offset }),
  };
}

function readErrno(body: ByteReader): number {
  const start = body.offset;
  const code = body.s32("error number");
  if (code > 0) throw new DecodeError(`error number ${code} is not negative`, start);
  return -code;
}

function hasFlag(flags: number, flag: number): boolean {
  return (flags & flag) !== 0;
}
