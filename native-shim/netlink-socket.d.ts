/**
 * A netlink socket and nothing else: buffers in, buffers and errno numbers out. No message is understood
 * beyond its header (length, type, sequence number); no retry, no policy, no log. netlink(7).
 */
export interface OpenOptions {
  /** Bytes asked for with SO_RCVBUFFORCE, then SO_RCVBUF. */
  readonly receiveBufferBytes?: number;
  /** Bytes asked for with SO_SNDBUFFORCE, then SO_SNDBUF. */
  readonly sendBufferBytes?: number;
  /** NETLINK_EXT_ACK: the kernel's own words in error replies. */
  readonly extendedAck?: boolean;
  /** NETLINK_CAP_ACK: errors do not echo the request. */
  readonly capAck?: boolean;
  /** NETLINK_GET_STRICT_CHK: dumps honour their filter. */
  readonly strictCheck?: boolean;
  /** Multicast groups to join (NETLINK_ADD_MEMBERSHIP). */
  readonly groups?: readonly number[];
}

/** Opaque; a socket that is garbage collected without close() is closed. */
export interface SocketHandle {
  readonly __brand: "NetlinkSocketHandle";
}

export interface TransactResult {
  /**
   * 0, or the errno that ended the call: ENOBUFS (all was executed, some replies are lost), ETIMEDOUT,
   * EMSGSIZE, EBADMSG (a malformed header is the last thing in `replies`), EBADF (closed meanwhile), EBUSY
   * (the socket is watched) …
   */
  readonly errno: number;
  /** Which system call it came from: "send", "receive", or "" when errno is 0. */
  readonly operation: "" | "send" | "receive";
  /**
   * Everything received, message after message, also what came before an error. A datagram that ended askew
   * is filled up to a multiple of four. Never shared with later calls.
   */
  readonly replies: Uint8Array;
}

/** Opens a socket of a netlink protocol (NETLINK_ROUTE 0, NETLINK_NETFILTER 12, NETLINK_GENERIC 16). Throws an Error with `errno` and `operation`. */
export function open(protocol: number, options: OpenOptions): SocketHandle;

/**
 * On the socket's own thread: sends `length` bytes from `offset` as one datagram, then receives until an
 * NLMSG_ERROR or NLMSG_DONE with sequence number `lastSequence`, or `timeoutMs` from now, 0 to 2^31 - 1.
 * Calls on one socket run one after the other. The bytes are copied: the buffer is free when this returns.
 * Keeps the event loop alive while it is pending. Never rejects; throws TypeError for wrong arguments.
 *
 * With `pieceBytes`, it ends as soon as it has received so many bytes, end or no end: a long listing comes piece by
 * piece, and whoever reads it is not kept waiting by the kernel for all of it. A call with `length` 0 goes on with it.
 *
 * The timeout also ends a call that waits inside the kernel for a lock. Until the kernel lets go, later
 * calls on the socket end with ETIMEDOUT at their own deadlines, not sent; then it works again. Replies
 * to a call that ended early may come before those to the next: sequence numbers show it.
 */
export function transact(
  socket: SocketHandle,
  buffer: Uint8Array,
  offset: number,
  length: number,
  lastSequence: number,
  timeoutMs: number,
  pieceBytes?: number,
): Promise<TransactResult>;

/**
 * The same for many requests that each need a socket of their own until they are answered, as dumps do: on the
 * socket's own thread, sends each message of the bytes as a datagram and receives until its answer, one after
 * the other, with three system calls for a small dump. Ends after the last, or behind the one with which
 * `pieceBytes` of replies were received: sequence numbers show which were answered, and the rest was not sent.
 * An error of the socket ends it at once.
 */
export function transactEach(
  socket: SocketHandle,
  buffer: Uint8Array,
  offset: number,
  length: number,
  timeoutMs: number,
  pieceBytes: number,
): Promise<TransactResult>;

/**
 * The same on the calling thread, after the calls that are pending; for many small dumps (9 µs each instead
 * of 80). Its timeout does not cover a kernel lock. Throws only for wrong arguments.
 */
export function transactSync(
  socket: SocketHandle,
  buffer: Uint8Array,
  offset: number,
  length: number,
  lastSequence: number,
  timeoutMs: number,
): TransactResult;

/**
 * Calls back with each datagram that arrives (multicast), or with the errno of a failed receive (ENOBUFS:
 * events were lost, watching goes on; any other ends it). close() ends it. A watched socket makes no calls
 * (EBUSY) and does not keep the event loop alive. What the callback throws is an uncaught exception. Throws
 * an Error with `errno`: EBADF closed, EBUSY watched already.
 */
export function watch(
  socket: SocketHandle,
  onDatagram: (errno: number, datagram: Uint8Array) => void,
): void;

/** Closes; pending calls end with EBADF. Closing twice is fine. */
export function close(socket: SocketHandle): void;
