/** Netlink sockets: gives the addon's calls the shape of `netlink-socket.d.ts`. */
import { addon } from "./load-addon.ts";
import type { OpenOptions, SocketHandle, TransactResult } from "./netlink-socket.d.ts";

export type { OpenOptions, SocketHandle, TransactResult } from "./netlink-socket.d.ts";

/** The socket's thread ends a call at its deadline and keeps the replies; only a stuck one comes later than this. */
const graceMs = 20;

/** Longest delay that a timer takes. */
const maxDelayMs = 2 ** 31 - 1;

/** See `netlink-socket.d.ts`. */
export function open(protocol: number, options: OpenOptions): SocketHandle {
  return addon().open(protocol, options);
}

/** See `netlink-socket.d.ts`. */
export function transact(
  socket: SocketHandle,
  buffer: Uint8Array,
  offset: number,
  length: number,
  lastSequence: number,
  timeoutMs: number,
  pieceBytes = 0,
): Promise<TransactResult> {
  const call = { buffer, offset, length, lastSequence, timeoutMs, pieceBytes, oneByOne: false };
  return submit(socket, call);
}

/** See `netlink-socket.d.ts`. */
export function transactEach(
  socket: SocketHandle,
  buffer: Uint8Array,
  offset: number,
  length: number,
  timeoutMs: number,
  pieceBytes: number,
): Promise<TransactResult> {
  const call = { buffer, offset, length, lastSequence: 0, timeoutMs, pieceBytes, oneByOne: true };
  return submit(socket, call);
}

interface Call {
  readonly buffer: Uint8Array;
  readonly offset: number;
  readonly length: number;
  readonly lastSequence: number;
  readonly timeoutMs: number;
  readonly pieceBytes: number;
  readonly oneByOne: boolean;
}

/**
 * The timer does two things: it ends a call that is stuck in the kernel, which
 * no thread can do for itself, and it keeps the event loop alive while the call is pending, which the
 * addon never does. Each result gets a turn of the event loop of its own: what ends while the addon hands over is
 * handed over at once, and a chain of calls would keep timers and sockets waiting to its end.
 */
function submit(socket: SocketHandle, call: Call): Promise<TransactResult> {
  const { promise, resolve } = Promise.withResolvers<TransactResult>();
  const onResult = (result: TransactResult): void => {
    clearTimeout(timer);
    setImmediate(resolve, result);
  };
  const refused = addon().submit(
    socket,
    call.buffer,
    call.offset,
    call.length,
    call.lastSequence,
    call.timeoutMs,
    call.pieceBytes,
    call.oneByOne,
    onResult,
  );
  if (refused !== undefined) return Promise.resolve(refused);
  const delayMs = Math.min(call.timeoutMs + graceMs, maxDelayMs);
  const timer = setTimeout(() => addon().expire(socket), delayMs);
  return promise;
}

/** See `netlink-socket.d.ts`. */
export function transactSync(
  socket: SocketHandle,
  buffer: Uint8Array,
  offset: number,
  length: number,
  lastSequence: number,
  timeoutMs: number,
): TransactResult {
  return addon().transactSync(socket, buffer, offset, length, lastSequence, timeoutMs);
}

/** See `netlink-socket.d.ts`. */
export function watch(
  socket: SocketHandle,
  onDatagram: (errno: number, datagram: Uint8Array) => void,
): void {
  addon().watch(socket, onDatagram);
}

/** See `netlink-socket.d.ts`. */
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
