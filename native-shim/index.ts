/**
 * A netlink socket and nothing else: buffers in, buffers and errno numbers out. No message is understood
 * beyond its header (length, type, sequence number); no retry, no policy, no log. netlink(7).
 */
import {
  addon,
  type OnDatagram,
  type OpenOptions,
  type SocketHandle,
  type TransactResult,
} from "./load-addon.ts";

export type { OpenOptions, SocketHandle, TransactResult } from "./load-addon.ts";

/** The socket's thread ends a call at its deadline and keeps the replies; only a stuck one comes later than this. */
const graceMs = 20;

/** The replies were received, but there is no memory to hand them over: ENOMEM. */
const withoutMemory: TransactResult = {
  errno: 12,
  operation: "receive",
  replies: new Uint8Array(),
};

/** Longest delay that a timer takes. */
const maxDelayMs = 2 ** 31 - 1;

/**
 * Opens a socket of a netlink protocol (NETLINK_ROUTE 0, NETLINK_NETFILTER 12, NETLINK_GENERIC 16). Throws an Error
 * with `errno` and `operation`.
 */
export function open(protocol: number, options: OpenOptions): SocketHandle {
  const { receiveBufferBytes = 0, extendedAck, capAck, strictCheck, groups = [] } = options;
  const flags = (extendedAck ? 1 : 0) | (capAck ? 2 : 0) | (strictCheck ? 4 : 0);
  const bytes = new Uint8Array(new Uint32Array(groups).buffer);
  return addon().open(protocol, receiveBufferBytes, flags, bytes);
}

/**
 * On the socket's own thread: sends `request` as one datagram, then receives until an NLMSG_ERROR or NLMSG_DONE
 * with sequence number `lastSequence`, or `timeoutMs` from now, 0 to 2^31 - 1. Calls on one socket run one after
 * the other. The bytes are copied: the buffer is free when this returns. Keeps the event loop alive while it is
 * pending. Never rejects; throws TypeError for wrong arguments.
 *
 * With `pieceBytes`, it ends as soon as it has received so many bytes, end or no end: a long listing comes piece by
 * piece, and whoever reads it is not kept waiting by the kernel for all of it. A call with an empty `request` goes
 * on with it.
 *
 * The timeout also ends a call that waits inside the kernel for a lock. Until the kernel lets go, later
 * calls on the socket end with ETIMEDOUT at their own deadlines, not sent; then it works again. Replies
 * to a call that ended early may come before those to the next: sequence numbers show it.
 */
export function transact(
  socket: SocketHandle,
  request: Uint8Array,
  lastSequence: number,
  timeoutMs: number,
  pieceBytes = 0,
): Promise<TransactResult> {
  return submit(socket, request, lastSequence, timeoutMs, pieceBytes, 0);
}

/**
 * The same for many requests that each need a socket of their own until they are answered, as dumps do: on the
 * socket's own thread, sends each message of the bytes as a datagram and receives until its answer, one after
 * the other, with three system calls for a small dump. Ends after the last, or behind the one with which
 * `pieceBytes` of replies were received: sequence numbers show which were answered, and the rest was not sent.
 * An error of the socket ends it at once.
 */
export function transactEach(
  socket: SocketHandle,
  requests: Uint8Array,
  timeoutMs: number,
  pieceBytes: number,
): Promise<TransactResult> {
  return submit(socket, requests, 0, timeoutMs, pieceBytes, 1);
}

/**
 * The timer does two things: it ends a call that is stuck in the kernel, which
 * no thread can do for itself, and it keeps the event loop alive while the call is pending, which the
 * addon never does. Each result gets a turn of the event loop of its own: what ends while the addon hands over is
 * handed over at once, and a chain of calls would keep timers and sockets waiting to its end.
 */
function submit(
  socket: SocketHandle,
  request: Uint8Array,
  lastSequence: number,
  timeoutMs: number,
  pieceBytes: number,
  oneByOne: 0 | 1,
): Promise<TransactResult> {
  const { promise, resolve } = Promise.withResolvers<TransactResult>();
  const onResult = (result = withoutMemory): void => {
    clearTimeout(timer);
    setImmediate(resolve, result);
  };
  const call = [request, lastSequence, Math.ceil(timeoutMs), pieceBytes, oneByOne] as const;
  const refused = addon().submit(socket, ...call, onResult);
  if (refused !== undefined) return Promise.resolve(refused);
  const delayMs = Math.min(timeoutMs + graceMs, maxDelayMs);
  const timer = setTimeout(() => addon().expire(socket), delayMs);
  return promise;
}

/**
 * Calls back with each datagram that arrives (multicast), or with the errno of a failed receive (ENOBUFS:
 * events were lost, watching goes on; any other ends it). close() ends it. A watched socket makes no calls
 * (EBUSY) and does not keep the event loop alive. What the callback throws is an uncaught exception. Throws
 * an Error with `errno`: EBADF closed, EBUSY watched already.
 */
export function watch(socket: SocketHandle, onDatagram: OnDatagram): void {
  addon().watch(socket, onDatagram);
}

/** Closes; pending calls end with EBADF. Closing twice is fine. */
export function close(socket: SocketHandle): void {
  addon().close(socket);
}

/**
 * No core dump of this process from now on, whatever kernel.core_pattern says, and no tracing of it without
 * CAP_SYS_PTRACE; programs that it starts are not touched. Throws what the kernel says against it.
 */
export function forbidCoreDumps(): void {
  addon().forbidCoreDumps();
}
