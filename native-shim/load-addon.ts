/** Finds and loads the addon on first use, not on import, so that other code can be tested without it. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

export interface OpenOptions {
  /** Receive buffer size in bytes, set with SO_RCVBUFFORCE or, if that fails, SO_RCVBUF. */
  readonly receiveBufferBytes?: number;
  /** NETLINK_EXT_ACK: error replies contain the kernel's error message. */
  readonly extendedAck?: boolean;
  /** NETLINK_CAP_ACK: error replies do not echo the request. */
  readonly capAck?: boolean;
  /** NETLINK_GET_STRICT_CHK: dumps apply the request's filter. */
  readonly strictCheck?: boolean;
  /** Multicast groups to join (NETLINK_ADD_MEMBERSHIP). */
  readonly groups?: readonly number[];
}

/** Opaque. If a handle is garbage collected without close(), its socket is closed. */
export interface SocketHandle {
  readonly __brand: "NetlinkSocketHandle";
}

export interface TransactResult {
  /**
   * 0, or the errno that ended the call: ENOBUFS (the kernel executed all requests, but some replies were lost),
   * ETIMEDOUT, EMSGSIZE, EBADMSG (the last message in `replies` has a malformed header), EBADF (closed during the
   * call), EBUSY (the socket is watched), and others.
   */
  readonly errno: number;
  /**
   * All received messages, including those received before an error. A datagram whose length is not a multiple of
   * four is padded. The memory is never shared with later calls.
   */
  readonly replies: Uint8Array;
}

/** The process at the other end of a unix socket, as it was when it called listen(2) or connect(2). */
export interface SocketPeer {
  /** 0 if the process is in a PID namespace that is neither ours nor a descendant of ours. */
  readonly pid: number;
  /** If the user has no ID in our user namespace, this is the overflow UID, usually 65534, and never 0. */
  readonly uid: number;
}

/**
 * Called with a call's result, or with a watched datagram if `call` is 0. `replies` is undefined if there is no memory
 * for it.
 */
export type OnDelivery = (call: number, errno: number, replies?: Uint8Array) => void;

/** The exports of `addon.c`. */
export interface Addon {
  /** `flags`: 1 extendedAck, 2 capAck, 4 strictCheck. `groups`: 32-bit numbers in the host's byte order. */
  open(
    protocol: number,
    receiveBufferBytes: number,
    flags: number,
    groups: Uint8Array,
    onDelivery: OnDelivery,
  ): SocketHandle;
  /** Queues a call with a number from 1 to 2^31 - 1. Returns 0, or the errno if the call cannot be queued. */
  submit(
    socket: SocketHandle,
    call: number,
    request: Uint8Array,
    lastSequence: number,
    timeoutMs: number,
    pieceBytes: number,
    oneByOne: 0 | 1,
  ): number;
  /** Delivers finished calls without waiting for the event loop. */
  deliver(): void;
  watch(socket: SocketHandle): void;
  /** Nothing is delivered afterwards. */
  close(socket: SocketHandle): void;
  forbidCoreDumps(): void;
  readPeer(fd: number): SocketPeer;
  readLegacyTable(name: string, family: number, maxBytes: number): Uint8Array;
}

/** Paths of the addon: next to the bundle or, if the program runs from its sources, where `make build` puts it. */
const candidates: readonly URL[] = [
  new URL("./netlink_socket.node", import.meta.url),
  new URL(`../build/native-shim/${process.arch}/netlink_socket.node`, import.meta.url),
];

let loaded: Addon | undefined;

export function addon(): Addon {
  loaded ??= load();
  return loaded;
}

function load(): Addon {
  const paths = candidates.map((url) => fileURLToPath(url));
  const path = paths.find((candidate) => existsSync(candidate));
  if (path === undefined) {
    throw new Error(
      `Cannot load the native addon: neither ${paths.join(" nor ")} exists; run \`make build\``,
    );
  }
  return createRequire(import.meta.url)(path) as Addon;
}
