/** What the kernel answers: acknowledgements, ends of dumps, and its own words. linux/netlink.h. */
import { errno } from "../base/errno.ts";
import { text, u32 } from "./attribute-field.ts";
import { attributeSet } from "./attribute-set.ts";
import type { ByteReader } from "./byte-reader.ts";
import { DecodeError } from "./errors.ts";
import { MESSAGE_HEADER_BYTES, type Message, readMessages } from "./message.ts";
import { messageFlags, messageTypes } from "./netlink-package.ts";

/** Outcome of one request. */
export interface Outcome {
  /** 0: success. */
  readonly errno: number;
  readonly kernelMessage?: string;
  /** The refused request behind its netlink header; only where the socket has no `capAck`. */
  readonly echo?: Uint8Array;
}

/** NLMSGERR_ATTR_*, linux/netlink.h. Older kernels send none. */
const errorAttributes = attributeSet({ message: text(1), offset: u32(2) });

/** Everything that came back for one request. */
export interface Reply<R> {
  readonly values: R[];
  readonly outcome: Outcome;
  /** NLM_F_DUMP_INTR: the listing changed while it was read. */
  readonly isInterrupted: boolean;
}

/**
 * Reads the reply to the request with `sequence`; messages of other sequence numbers are late replies to
 * requests that were given up. Throws DecodeError, also when the reply has no end.
 */
export function readReply<R>(
  bytes: Uint8Array,
  sequence: number,
  decode: (message: Message) => R | undefined = () => undefined,
): Reply<R> {
  const values: R[] = [];
  let outcome: Outcome | undefined;
  let isInterrupted = false;
  readMessages(bytes, (message) => {
    if (message.sequence !== sequence || message.type === messageTypes.noop) return;
    if (hasFlag(message.flags, messageFlags.dumpInterrupted)) isInterrupted = true;
    if (endsRequest(message)) outcome = decodeOutcome(message);
    else append(values, decode(message));
  });
  if (outcome === undefined) throw new DecodeError("reply without an end", bytes.length);
  return { values, outcome, isInterrupted };
}

function append<R>(values: R[], value: R | undefined): void {
  if (value !== undefined) values.push(value);
}

/** True for the message that ends a request: an acknowledgement, an error or the end of a dump. */
export function endsRequest(message: Message): boolean {
  return (
    message.type === messageTypes.error ||
    message.type === messageTypes.done ||
    message.type === messageTypes.overrun
  );
}

/** Reads NLMSG_ERROR (also «no error»), NLMSG_DONE or NLMSG_OVERRUN. */
export function decodeOutcome(message: Message): Outcome {
  if (message.type === messageTypes.overrun) return { errno: errno.ENOBUFS };
  return message.type === messageTypes.done ? decodeDone(message) : decodeError(message);
}

/** struct nlmsgerr: s32 negative errno, the request's header, the request unless capped, attributes. */
function decodeError({ flags, body }: Message): Outcome {
  const number = readErrno(body);
  const requestStart = body.offset;
  const requestBytes = body.u32("length of the refused request");
  body.skip(MESSAGE_HEADER_BYTES - 4, "header of the refused request");
  const echo = hasFlag(flags, messageFlags.capped) ? undefined : readEcho(body, requestBytes);
  body.align();
  if (requestBytes < MESSAGE_HEADER_BYTES) {
    throw new DecodeError(`refused request of ${requestBytes} bytes`, requestStart);
  }
  const kernelMessage = readKernelMessage(flags, body);
  return {
    errno: number,
    ...(kernelMessage === undefined ? {} : { kernelMessage }),
    ...(echo === undefined ? {} : { echo }),
  };
}

/** s32 negative errno or 0, attributes. Some dumps end without a payload. */
function decodeDone({ flags, body }: Message): Outcome {
  if (body.remaining === 0) return { errno: 0 };
  const number = readErrno(body);
  const kernelMessage = readKernelMessage(flags, body);
  return { errno: number, ...(kernelMessage === undefined ? {} : { kernelMessage }) };
}

/** Copied: the caller may keep it. An acknowledgement of success has none, capped or not. */
function readEcho(body: ByteReader, requestBytes: number): Uint8Array | undefined {
  const length = requestBytes - MESSAGE_HEADER_BYTES;
  if (length <= 0 || body.remaining === 0) return undefined;
  return body.bytes(length, "echo of the refused request").slice();
}

function readKernelMessage(flags: number, body: ByteReader): string | undefined {
  if (!hasFlag(flags, messageFlags.acknowledgeAttributes)) return undefined;
  const { message } = errorAttributes.decode(body);
  return message === "" ? undefined : message;
}

function readErrno(body: ByteReader): number {
  const start = body.offset;
  const code = body.s32("error number");
  if (code > 0) throw new DecodeError(`error number ${code} where a negative one belongs`, start);
  return -code;
}

function hasFlag(flags: number, flag: number): boolean {
  return (flags & flag) !== 0;
}
