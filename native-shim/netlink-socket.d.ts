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
  /** 0, or the errno that ended the call: ENOBUFS, ETIMEDOUT, EMSGSIZE, EBADF (closed meanwhile) … */
  readonly errno: number;
  /** Which system call it came from: "send", "receive", or "" when errno is 0. */
  readonly operation: "" | "send" | "receive";
  /** Everything received, message after message, also what came before an error. Never shared with later calls. */
  readonly replies: Uint8Array;
}

/** Opens a socket of a netlink protocol (NETLINK_ROUTE 0, NETLINK_NETFILTER 12, NETLINK_GENERIC 16). Throws an Error with `errno` and `operation`. */
export function open(protocol: number, options: OpenOptions): SocketHandle;

/**
 * On the thread pool: sends `length` bytes from `offset` as one datagram, then receives until an
 * NLMSG_ERROR or NLMSG_DONE with sequence number `lastSequence`, or `timeoutMs`. Calls on one socket run
 * one after the other. The buffer must not be changed until the promise settles. Never rejects.
 */
export function transact(
  socket: SocketHandle,
  buffer: Uint8Array,
  offset: number,
  length: number,
  lastSequence: number,
  timeoutMs: number,
): Promise<TransactResult>;

/** The same on the calling thread; for many small dumps. Throws only for wrong arguments. */
export function transactSync(
  socket: SocketHandle,
  buffer: Uint8Array,
  offset: number,
  length: number,
  lastSequence: number,
  timeoutMs: number,
): TransactResult;

/** Calls back with each datagram that arrives (multicast), or with the errno of a failed receive (ENOBUFS: events were lost, watching goes on). Returns nothing; close() ends it. */
export function watch(
  socket: SocketHandle,
  onDatagram: (errno: number, datagram: Uint8Array) => void,
): void;

/** Closes; pending calls end with EBADF. Closing twice is fine. */
export function close(socket: SocketHandle): void;
