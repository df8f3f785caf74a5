/**
 * A netlink socket: buffers in, buffers and errno numbers out. Only the length, type and sequence number in the
 * message header are interpreted. No retries, no policy, no logging. netlink(7).
 */
import {
  addon,
  type OnDelivery,
  type OpenOptions,
  type SocketHandle,
  type TransactResult,
} from "./load-addon.ts";

export type { OpenOptions, SocketHandle, TransactResult } from "./load-addon.ts";

/** Called with each datagram. If a receive fails, called with its errno and a meaningless `datagram`. */
type OnDatagram = (errno: number, datagram: Uint8Array) => void;

/**
 * Grace period after the deadline, in which the socket's thread can end a call itself and return the replies received
 * so far. After it, the timer ends calls that are stuck in the kernel. On a busy node, more than a hundred milliseconds
 * may pass before the thread runs.
 */
const graceMs = 500;

/** Longest delay that a timer accepts, and the largest call number. */
const maxInteger = 2 ** 31 - 1;

const nothing = new Uint8Array();
const closed: TransactResult = { errno: 9, replies: nothing };
const timedOut: TransactResult = { errno: 110, replies: nothing };

/**
 * A socket's calls and watch. Refers to the handle only while the socket is watched, so that the handle can otherwise
 * be garbage-collected.
 */
interface SocketState {
  /** Functions that end the pending calls, by number. */
  readonly calls: Map<number, (result: TransactResult) => void>;
  lastCall: number;
  watch: { readonly socket: SocketHandle; readonly onDatagram: OnDatagram } | undefined;
}

const states = new WeakMap<SocketHandle, SocketState>();

function stateOf(socket: SocketHandle): SocketState {
  const state = states.get(socket);
  if (state === undefined) throw new TypeError("The socket must be a handle from open()");
  return state;
}

/**
 * Opens a socket of a netlink protocol (NETLINK_ROUTE 0, NETLINK_NETFILTER 12, NETLINK_GENERIC 16). Throws an Error
 * with `errno` and `operation`.
 */
export function open(protocol: number, options: OpenOptions): SocketHandle {
  const { receiveBufferBytes = 0, extendedAck, capAck, strictCheck, groups = [] } = options;
  const flags = (extendedAck ? 1 : 0) | (capAck ? 2 : 0) | (strictCheck ? 4 : 0);
  const bytes = new Uint8Array(new Uint32Array(groups).buffer);
  const state: SocketState = { calls: new Map(), lastCall: 0, watch: undefined };
  const socket = addon().open(protocol, receiveBufferBytes, flags, bytes, receiverOf(state));
  states.set(socket, state);
  return socket;
}

function receiverOf(state: SocketState): OnDelivery {
  return (call, errno, replies = nothing) => {
    if (call === 0) state.watch?.onDatagram(errno, replies);
    else end(state, call, { errno, replies });
  };
}

/** Ends a call. Does nothing if the call has already ended, which happens if the kernel returns after the deadline. */
function end({ calls }: SocketState, call: number, result: TransactResult): void {
  const resolve = calls.get(call);
  calls.delete(call);
  resolve?.(result);
}

/**
 * On the socket's own thread, sends `request` as one datagram, then receives until an NLMSG_ERROR or NLMSG_DONE with
 * sequence number `lastSequence` arrives, or until `timeoutMs` (0 to 2^31 - 1) has passed. Calls on one socket run one
 * after the other. The request is copied, so the caller can reuse the buffer when this returns. A pending call keeps
 * the event loop alive. Never rejects; throws TypeError for invalid arguments.
 *
 * With `pieceBytes`, the call ends as soon as it has received that many bytes, even if the reply is incomplete. The
 * caller can thus read a long dump in pieces instead of waiting until the kernel has produced all of it. A call with an
 * empty `request` receives the next piece.
 *
 * The timeout also ends a call that is waiting for a lock inside the kernel. Until the kernel returns, later calls on
 * the socket are not sent and end with ETIMEDOUT at their own deadlines. Afterwards, the socket works again. Replies to
 * a call that ended early may precede the replies to the next call; sequence numbers distinguish them.
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
 * Like `transact`, for many requests that each occupy the socket until they are answered, as dumps do. On the socket's
 * own thread, sends each message as a datagram and receives its reply before it sends the next one. A small dump takes
 * three system calls. Ends after the last message, or after the reply that brings the total to `pieceBytes`. Later
 * messages are not sent, and sequence numbers show which ones were answered. A socket error ends the call immediately.
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
 * Submits a call and starts its timer. The timer ends a call that is stuck in the kernel, which the socket's thread
 * cannot do. It also keeps the event loop alive while the call is pending, which the addon does not. `setImmediate`
 * gives each result a separate turn of the event loop. Otherwise, a chain of calls would delay timers and sockets until
 * its end, because the addon delivers every finished call, including those made by earlier callbacks.
 */
function submit(
  socket: SocketHandle,
  request: Uint8Array,
  lastSequence: number,
  timeoutMs: number,
  pieceBytes: number,
  oneByOne: 0 | 1,
): Promise<TransactResult> {
  const state = stateOf(socket);
  const { promise, resolve } = Promise.withResolvers<TransactResult>();
  const call = (state.lastCall % maxInteger) + 1;
  const given = [request, lastSequence, Math.ceil(timeoutMs), pieceBytes, oneByOne] as const;
  const errno = addon().submit(socket, call, ...given);
  if (errno !== 0) return Promise.resolve({ errno, replies: nothing });
  state.lastCall = call;
  const timer = setTimeout(expire, Math.min(timeoutMs + graceMs, maxInteger), socket, call);
  state.calls.set(call, (result) => {
    clearTimeout(timer);
    setImmediate(resolve, result);
  });
  return promise;
}

/** Ends a call whose deadline has passed. Its result may be ready but not delivered yet. */
function expire(socket: SocketHandle, call: number): void {
  addon().deliver();
  end(stateOf(socket), call, timedOut);
}

/**
 * Calls back with each multicast datagram, and with the errno of each failed receive. ENOBUFS means that events were
 * lost and the watch continues; any other error ends it. close() also ends it. A watched socket cannot make calls
 * (EBUSY) and does not keep the event loop alive. If the callback throws, the exception is uncaught. Throws an Error
 * with `errno`: EBADF if closed, EBUSY if already watched.
 */
export function watch(socket: SocketHandle, onDatagram: OnDatagram): void {
  const state = stateOf(socket);
  if (typeof onDatagram !== "function") throw new TypeError("onDatagram must be a function");
  addon().watch(socket);
  state.watch = { socket, onDatagram };
}

/** Closes the socket. Pending calls end with EBADF. Closing twice is safe. */
export function close(socket: SocketHandle): void {
  const state = stateOf(socket);
  addon().close(socket);
  state.watch = undefined;
  for (const call of state.calls.keys()) end(state, call, closed);
}

/**
 * From now on, the kernel writes no core dump of this process, regardless of kernel.core_pattern, and processes without
 * CAP_SYS_PTRACE cannot trace it. Programs that this process starts are not affected. Throws an Error if the kernel
 * rejects this.
 */
export function forbidCoreDumps(): void {
  addon().forbidCoreDumps();
}
