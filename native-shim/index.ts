/**
 * A netlink socket: buffers in, buffers and errno numbers out. Only the length, type and sequence number in the
 * message header are interpreted. No retries, no policy, no logging. netlink(7).
 */
import {
  addon,
  type OnDatagram,
  type OpenOptions,
  type SocketHandle,
  type TransactResult,
} from "./load-addon.ts";

export type { OpenOptions, SocketHandle, TransactResult } from "./load-addon.ts";

/**
 * Time after the deadline in which the socket's thread ends a call by itself and returns the replies received so far.
 * The timer then only ends calls that are stuck in the kernel.
 */
const graceMs = 20;

/** ENOMEM: replies were received, but there is no memory to return them. */
const withoutMemory: TransactResult = { errno: 12, replies: new Uint8Array() };

/** Longest delay that a timer accepts. */
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
 * On the socket's own thread, sends `request` as one datagram, then receives until an NLMSG_ERROR or NLMSG_DONE with
 * sequence number `lastSequence` arrives, or until `timeoutMs` (0 to 2^31 - 1) has passed. Calls on one socket run
 * one after the other. The request is copied, so the caller can reuse the buffer when this returns. A pending call
 * keeps the event loop alive. Never rejects; throws TypeError for invalid arguments.
 *
 * With `pieceBytes`, the call ends as soon as it has received that many bytes, even if the reply is not complete. The
 * caller can thus read a long dump in pieces instead of waiting until the kernel has produced all of it. A call with
 * an empty `request` receives the next piece.
 *
 * The timeout also ends a call that waits for a lock inside the kernel. Until the kernel returns from it, later calls
 * on the socket are not sent and end with ETIMEDOUT at their own deadlines; afterwards the socket works again.
 * Replies to a call that ended early may precede the replies to the next call; sequence numbers distinguish them.
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
 * Like `transact`, for many requests that each occupy the socket until they are answered, as dumps do. On the
 * socket's own thread, sends each message as a datagram and receives its reply before it sends the next one. A small
 * dump takes three system calls. Ends after the last message, or after the reply that brings the total to
 * `pieceBytes`; the messages after it are not sent, and sequence numbers show which ones were answered. A socket
 * error ends the call immediately.
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
 * The timer ends a call that is stuck in the kernel, which the socket's thread cannot do. It also keeps the event
 * loop alive while the call is pending, which the addon does not. `setImmediate` gives each result its own turn of
 * the event loop: the addon delivers everything that is finished, including calls made by earlier callbacks, so a
 * chain of calls would otherwise delay timers and sockets until its end.
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
 * Calls back with each multicast datagram, or with the errno of a failed receive. ENOBUFS means that events were lost
 * and the watch continues; any other error ends it. close() also ends it. A watched socket cannot make calls (EBUSY)
 * and does not keep the event loop alive. An exception thrown by the callback is uncaught. Throws an Error with
 * `errno`: EBADF if closed, EBUSY if already watched.
 */
export function watch(socket: SocketHandle, onDatagram: OnDatagram): void {
  addon().watch(socket, onDatagram);
}

/** Closes the socket; pending calls end with EBADF. Closing twice is safe. */
export function close(socket: SocketHandle): void {
  addon().close(socket);
}

/**
 * From now on the kernel writes no core dump of this process, whatever kernel.core_pattern says, and processes
 * without CAP_SYS_PTRACE cannot trace it. Programs that it starts are not affected. Throws an Error if the kernel
 * rejects this.
 */
export function forbidCoreDumps(): void {
  addon().forbidCoreDumps();
}
