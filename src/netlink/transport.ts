/**
 * Requests and replies over one netlink socket: a single request, a batch, a dump, or many small dumps. Operations on
 * one socket run one after the other. Callers that need parallel operations open several sockets.
 */
import type * as shim from "../../native-shim/index.ts";
import { type Clock, sleep } from "../base/clock.ts";
import { errno as errnos } from "../base/errno.ts";
import { Exclusive } from "../base/exclusive.ts";
import {
  type Datagram,
  encodeDatagram,
  encodeTransaction,
  readFailures,
  type TakeAnswer,
} from "./batch.ts";
import type { ByteReader } from "./byte-reader.ts";
import { DecodeError, type Description, NetlinkError } from "./errors.ts";
import { type Message, MessageWriter } from "./message.ts";
import { messageFlags } from "./netlink-package.ts";
import { type Reply, ReplyReader, readReply, repliesOf } from "./reply.ts";
import { encodeRequest, errorOf, type FailedRequest, type RequestKind } from "./request.ts";

/** The socket: native-shim/index.ts or, in tests, a stand-in that answers datagrams. */
export type NetlinkShim = Pick<
  typeof shim,
  "open" | "transact" | "transactEach" | "watch" | "close"
>;

export interface TransportDependencies {
  readonly shim: NetlinkShim;
  readonly clock: Clock;
}

export interface TransportOptions {
  /** One of `protocols` in netlink-package.ts. */
  readonly protocol: number;
  /** NETLINK_GET_STRICT_CHK: rtnetlink dumps apply the request's filter. Default: false. */
  readonly strictCheck?: boolean;
}

/**
 * The size of two dump datagrams, which are decoded in a few milliseconds. Buffers of this size are small enough that
 * no new memory is mapped for each piece.
 */
const PIECE_BYTES = 48 * 1024;

/**
 * Maximum number of dumps per native call in `dumpMany`, and the number of reply bytes after which a call ends early.
 * Decoding the replies to one call takes one or two milliseconds.
 */
const DUMPS_PER_CALL = 128;
const DUMPS_PIECE_BYTES = 256 * 1024;

/**
 * The kernel charges 768 bytes of receive buffer per error reply. The smallest requests take about 36 bytes, so a
 * datagram contains up to 1,820 of them, and all their error replies fit into this buffer.
 */
const RECEIVE_BUFFER_BYTES = 2 * 1024 * 1024;
/** Maximum time to wait for the replies to one datagram, or for each piece of a long dump. */
const TIMEOUT_MS = 10_000;
const MAX_DUMP_ATTEMPTS = 6;
const nothing = new Uint8Array();
const FIRST_DUMP_PAUSE_MS = 5;

/** Opens a socket through the shim. Throws a NetlinkError with `description` if this fails. */
export function openSocket(
  { shim }: TransportDependencies,
  protocol: number,
  options: shim.OpenOptions,
  description: Description,
): shim.SocketHandle {
  try {
    return shim.open(protocol, options);
  } catch (cause) {
    const errno = (cause as { errno?: unknown }).errno;
    if (typeof errno !== "number") throw cause;
    throw new NetlinkError({ ...description, errno: Math.abs(errno) });
  }
}

export class NetlinkTransport {
  readonly #dependencies: TransportDependencies;
  readonly #socket: shim.SocketHandle;
  readonly #writer = new MessageWriter();
  readonly #exclusive = new Exclusive();
  #lastSequence = 0;

  /** Opens a socket. Throws NetlinkError. */
  constructor(dependencies: TransportDependencies, options: TransportOptions) {
    this.#dependencies = dependencies;
    const wanted = {
      receiveBufferBytes: RECEIVE_BUFFER_BYTES,
      extendedAck: true,
      capAck: true,
      strictCheck: options.strictCheck ?? false,
    };
    const subject = `of protocol ${options.protocol}`;
    const description = { operation: "open netlink socket", subject };
    this.#socket = openSocket(dependencies, options.protocol, wanted, description);
  }

  /**
   * Sends one request and waits for its acknowledgment. Returns the values that `decode` returns for the messages
   * before the acknowledgment: none for a change, one for a get. Throws NetlinkError, DecodeError.
   */
  request<T, R = never>(
    kind: RequestKind<T>,
    request: T,
    decode?: (message: Message) => R | undefined,
  ): Promise<R[]> {
    return this.#exclusive.run(async () => {
      this.#encode(kind, request, messageFlags.acknowledge);
      const reply = this.#read(await this.#transact(), decode);
      if (reply.outcome.errno !== 0) throw errorOf(kind, request, reply.outcome);
      return reply.values;
    });
  }

  /**
   * Sends many requests in few datagrams, in order. A rejected request does not stop the others. Only a datagram's last
   * message requests an acknowledgment; the kernel always sends errors. Rejects with NetlinkError if the socket fails
   * (ENOBUFS, ETIMEDOUT). The kernel may then have executed every request, so the caller must observe again. `take`
   * receives the replies to requests that return data.
   */
  batch<T>(
    kind: RequestKind<T>,
    requests: readonly T[],
    take?: TakeAnswer,
  ): Promise<FailedRequest[]> {
    return this.#exclusive.run(async () => {
      const failed: FailedRequest[] = [];
      for (let first = 0; first < requests.length; ) {
        const datagram = this.#encodeMany(kind, requests, first);
        failed.push(...datagram.unsendable, ...(await this.#sendDatagram(kind, datagram, take)));
        first += datagram.requests.length;
      }
      return failed.sort((a, b) => a.index - b.index);
    });
  }

  /**
   * Sends a netfilter subsystem's requests as one transaction: the kernel executes all of them or none. Returns the
   * rejected requests, none if all were executed. Rejects with NetlinkError if the kernel rejects the transaction as a
   * whole, or if the socket fails. Without CAP_NET_ADMIN, a transaction has at most 212,992 bytes.
   */
  transaction<T>(kind: RequestKind<T>, requests: readonly T[]): Promise<readonly FailedRequest[]> {
    return this.#exclusive.run(async () => {
      const [first, ...others] = requests;
      if (first === undefined) return [];
      const firstSequence = (this.#lastSequence + 1) >>> 0;
      const datagram = encodeTransaction(this.#writer, kind, [first, ...others], firstSequence);
      this.#lastSequence = datagram.lastSequence;
      if (datagram.unsendable.length > 0) return datagram.unsendable;
      return this.#sendDatagram(kind, datagram, undefined);
    });
  }

  /**
   * Lists objects. Returns what `decode` returns for the reply's messages, without undefined values. If the objects
   * change while they are being listed, the dump is repeated, so `decode` may see a message twice.
   */
  dump<T, R>(
    kind: RequestKind<T>,
    request: T,
    decode: (message: Message) => R | undefined,
  ): Promise<R[]> {
    return this.#exclusive.run(() => this.#dumpWithRetries(kind, request, decode));
  }

  /**
   * Runs one dump per request, one after the other, off the event loop. Returns what `read` returns for each dump's
   * messages, in request order. The event loop runs other work at least after every 128 dumps.
   */
  dumpMany<T, R>(
    kind: RequestKind<T>,
    requests: readonly T[],
    read: (messages: readonly ByteReader[], request: T) => R,
  ): Promise<R[]> {
    return this.#exclusive.run(async () => {
      const results: R[] = [];
      while (results.length < requests.length) {
        const first = results.length;
        for (const reply of await this.#dumpSome(kind, requests, first)) {
          const request = requests[results.length] as T;
          results.push(read(await this.#wholeReply(kind, request, reply), request));
        }
        if (results.length === first) throw new DecodeError("dumps without an end", 0);
      }
      return results;
    });
  }

  /** Ends pending calls with EBADF. Safe to call more than once. */
  close(): void {
    this.#dependencies.shim.close(this.#socket);
  }

  async #sendDatagram<T>(
    kind: RequestKind<T>,
    datagram: Datagram<T>,
    take: TakeAnswer | undefined,
  ): Promise<FailedRequest[]> {
    if (this.#writer.length === 0) return [];
    const result = await this.#transact();
    const [request] = datagram.requests;
    if (result.errno !== 0) throw errorOf(kind, request as T, { errno: result.errno });
    return readFailures(kind, datagram, result.replies, take);
  }

  /**
   * Retries interrupted dumps and EBUSY, which means that an earlier dump on this socket timed out before it was
   * fully read. An attempt that reads part of the earlier dump does not count, because a long dump has many parts.
   */
  async #dumpWithRetries<T, R>(
    kind: RequestKind<T>,
    request: T,
    decode: (message: Message) => R | undefined,
  ): Promise<R[]> {
    let pauseMs = FIRST_DUMP_PAUSE_MS;
    for (let attempt = 1; ; attempt += 1) {
      this.#encode(kind, request, messageFlags.dump);
      const reply = await this.#readPieces(decode);
      if (!mustReadAgain(reply)) return valuesOf(kind, request, reply);
      if (reply.outcome.errno === errnos.EBUSY && reply.followsOther) {
        attempt = 0;
        continue;
      }
      if (attempt === MAX_DUMP_ATTEMPTS) {
        throw errorOf(kind, request, { errno: reply.outcome.errno || errnos.EAGAIN });
      }
      await sleep(this.#dependencies.clock, pauseMs);
      pauseMs *= 2;
    }
  }

  /**
   * Returns the replies to some of the requests from index `first` on: at least one, or none if the kernel did not
   * answer.
   */
  async #dumpSome<T>(
    kind: RequestKind<T>,
    requests: readonly T[],
    first: number,
  ): Promise<Generator<Reply<ByteReader>>> {
    const firstSequence = (this.#lastSequence + 1) >>> 0;
    this.#writer.clear();
    for (const request of requests.slice(first, first + DUMPS_PER_CALL)) {
      this.#lastSequence = (this.#lastSequence + 1) >>> 0;
      const header = { flags: messageFlags.dump, sequence: this.#lastSequence };
      encodeRequest(this.#writer, kind, request, header);
    }
    const result = await this.#dependencies.shim.transactEach(
      this.#socket,
      this.#writer.written,
      TIMEOUT_MS,
      DUMPS_PIECE_BYTES,
    );
    if (result.errno !== 0) throw errorOf(kind, requests[first] as T, { errno: result.errno });
    return repliesOf(result.replies, firstSequence);
  }

  async #wholeReply<T>(
    kind: RequestKind<T>,
    request: T,
    reply: Reply<ByteReader>,
  ): Promise<readonly ByteReader[]> {
    if (!mustReadAgain(reply)) return valuesOf(kind, request, reply);
    return this.#dumpWithRetries(kind, request, ({ body }) => body);
  }

  #encode<T>(kind: RequestKind<T>, request: T, flags: number): void {
    this.#lastSequence = (this.#lastSequence + 1) >>> 0;
    this.#writer.clear();
    encodeRequest(this.#writer, kind, request, { flags, sequence: this.#lastSequence });
  }

  #encodeMany<T>(kind: RequestKind<T>, requests: readonly T[], first: number): Datagram<T> {
    const firstSequence = (this.#lastSequence + 1) >>> 0;
    const datagram = encodeDatagram(this.#writer, kind, requests, { first, firstSequence });
    this.#lastSequence = datagram.lastSequence;
    return datagram;
  }

  #read<R>(result: shim.TransactResult, decode?: (message: Message) => R | undefined): Reply<R> {
    if (result.errno !== 0) return failedReply(result.errno);
    return readReply(result.replies, this.#lastSequence, decode);
  }

  /** Yields to the event loop between pieces. The kernel produces each piece of a long dump only when it is read. */
  async #readPieces<R>(decode: (message: Message) => R | undefined): Promise<Reply<R>> {
    const reader = new ReplyReader(this.#lastSequence, decode);
    let result = await this.#transact(PIECE_BYTES);
    for (;;) {
      if (result.errno !== 0) return failedReply(result.errno);
      reader.take(result.replies);
      if (reader.hasEnded || result.replies.length < PIECE_BYTES) return reader.finish();
      result = await this.#exchange(nothing, PIECE_BYTES);
    }
  }

  #transact(pieceBytes = 0): Promise<shim.TransactResult> {
    return this.#exchange(this.#writer.written, pieceBytes);
  }

  /** Sends a request and receives replies. If `request` is empty, receives more replies to the previous request. */
  #exchange(request: Uint8Array, pieceBytes: number): Promise<shim.TransactResult> {
    const { shim } = this.#dependencies;
    return shim.transact(this.#socket, request, this.#lastSequence, TIMEOUT_MS, pieceBytes);
  }
}

function failedReply(errno: number): Reply<never> {
  return { values: [], outcome: { errno }, isInterrupted: false, followsOther: false };
}

function mustReadAgain(reply: Reply<unknown>): boolean {
  return reply.isInterrupted || reply.outcome.errno === errnos.EBUSY;
}

function valuesOf<T, R>(kind: RequestKind<T>, request: T, reply: Reply<R>): R[] {
  if (reply.outcome.errno !== 0) throw errorOf(kind, request, reply.outcome);
  return reply.values;
}
