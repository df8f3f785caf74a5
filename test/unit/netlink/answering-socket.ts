/** A socket that answers datagrams with given replies, in place of the native shim. */
import { type Message, MessageWriter, messagesOf } from "../../../src/netlink/message.ts";
import type { NetlinkShim } from "../../../src/netlink/transport.ts";

type TransactResult = Awaited<ReturnType<NetlinkShim["transact"]>>;

/** The reply bytes, or a socket failure. */
export type Answer = Uint8Array | TransactResult;

export interface AnsweringSocket {
  readonly shim: NetlinkShim;
  /** A copy of every sent datagram. */
  readonly sent: Uint8Array[];
  /** Maximum number of concurrent calls. */
  readonly mostAtOnce: () => number;
  /** Delivers a multicast datagram to all watchers. */
  readonly deliver: (errno: number, datagram: Uint8Array) => void;
  /** Number of watchers. */
  readonly listeners: () => number;
  readonly isClosed: () => boolean;
}

/** `answer` gets the messages of a datagram and the number of datagrams sent before it. */
export function answeringSocket(
  answer: (messages: readonly Message[], count: number) => Answer,
): AnsweringSocket {
  const sent: Uint8Array[] = [];
  let atOnce = 0;
  let mostAtOnce = 0;
  let isClosed = false;
  const watchers = new Map<object, Parameters<NetlinkShim["watch"]>[1]>();
  const answerTo = (datagram: Uint8Array): TransactResult => {
    sent.push(datagram);
    const reply = answer([...messagesOf(datagram)], sent.length - 1);
    return reply instanceof Uint8Array ? { errno: 0, replies: reply } : reply;
  };
  const counted = async (run: () => TransactResult): Promise<TransactResult> => {
    atOnce += 1;
    mostAtOnce = Math.max(mostAtOnce, atOnce);
    const result = run();
    await Promise.resolve();
    atOnce -= 1;
    return result;
  };
  const shim: NetlinkShim = {
    open: () => ({ __brand: "NetlinkSocketHandle" }),
    transact: (_socket, request) => counted(() => answerTo(request.slice())),
    transactEach: (_socket, requests, _timeoutMs, pieceBytes) =>
      counted(() => {
        const replies: Uint8Array[] = [];
        let receivedBytes = 0;
        for (const request of datagramsOf(requests.slice())) {
          const result = answerTo(request);
          replies.push(result.replies);
          receivedBytes += result.replies.length;
          const all = { ...result, replies: new Uint8Array(Buffer.concat(replies)) };
          if (result.errno !== 0 || receivedBytes >= pieceBytes) return all;
        }
        return { errno: 0, replies: new Uint8Array(Buffer.concat(replies)) };
      }),
    watch: (socket, onDatagram) => {
      watchers.set(socket, onDatagram);
    },
    close: (socket) => {
      watchers.delete(socket);
      isClosed = true;
    },
  };
  return {
    shim,
    sent,
    mostAtOnce: () => mostAtOnce,
    deliver(errno, datagram) {
      for (const watcher of watchers.values()) watcher(errno, datagram);
    },
    listeners: () => watchers.size,
    isClosed: () => isClosed,
  };
}

/** Yields each message separately. */
function* datagramsOf(bytes: Uint8Array): Generator<Uint8Array, void, undefined> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at, true);
    yield bytes.slice(at, at + length);
    at += (length + 3) & ~3;
  }
}

export interface MessageFields {
  readonly type: number;
  readonly flags?: number;
  readonly sequence: number;
  /** Writes the payload after the header. */
  readonly body?: (writer: MessageWriter) => void;
}

/** Concatenates messages. */
export function messages(...parts: readonly MessageFields[]): Uint8Array {
  const writer = new MessageWriter();
  for (const { type, flags = 0, sequence, body } of parts) {
    const start = writer.beginMessage(type, flags, sequence);
    body?.(writer);
    writer.endMessage(start);
  }
  return writer.written;
}

/** NLMSG_ERROR as received by a socket with NETLINK_CAP_ACK. `words` is the text of an extended acknowledgment. */
export function acknowledgement(sequence: number, errno = 0, words?: string): MessageFields {
  return {
    type: 2,
    flags: 0x100 | (words === undefined ? 0 : 0x200),
    sequence,
    body(writer) {
      writer.u32(-errno >>> 0);
      writeRequestHeader(writer, 16);
      if (words !== undefined) writeWords(writer, words);
    },
  };
}

/** NLMSG_DONE with its error code. */
export function done(sequence: number, errno = 0): MessageFields {
  return { type: 3, flags: 2, sequence, body: (writer) => writer.u32(-errno >>> 0) };
}

export function writeRequestHeader(writer: MessageWriter, length: number): void {
  writer.u32(length);
  writer.zeros(12);
}

/** NLMSGERR_ATTR_MSG. */
export function writeWords(writer: MessageWriter, words: string): void {
  const start = writer.beginAttribute(1);
  writer.text(words);
  writer.endAttribute(start);
}
