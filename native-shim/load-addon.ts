/** Finds and loads the addon at its first use, never at import, so that everything above can be tested without it. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

export interface OpenOptions {
  /** Bytes asked for with SO_RCVBUFFORCE, then SO_RCVBUF. */
  readonly receiveBufferBytes?: number;
  /** NETLINK_EXT_ACK: the kernel's own words in error replies. */
  readonly extendedAck?: boolean;
  /** NETLINK_CAP_ACK: errors do not echo the request. */
  readonly capAck?: boolean;
  /** NETLINK_GET_STRICT_CHK: dumps honor their filter. */
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

/** Gets each datagram, or the errno of a failed receive; `datagram` has no meaning then. */
export type OnDatagram = (errno: number, datagram: Uint8Array) => void;

/** The process at the other end of a unix socket, as the kernel saw it when it listened or connected. */
export interface SocketPeer {
  /** 0 if it lives in another PID namespace that is not below ours. */
  readonly pid: number;
  /** -2 or so, and never 0, if it has no id in our user namespace. */
  readonly uid: number;
}

/** What `addon.c` exports. */
export interface Addon {
  /** `flags`: 1 extendedAck, 2 capAck, 4 strictCheck. `groups`: 32-bit numbers in the host's order. */
  open(
    protocol: number,
    receiveBufferBytes: number,
    flags: number,
    groups: Uint8Array,
  ): SocketHandle;
  /**
   * Calls back once, after it has returned, without a result if there is no memory for one; or returns the result of a call
   * that it refused.
   */
  submit(
    socket: SocketHandle,
    request: Uint8Array,
    lastSequence: number,
    timeoutMs: number,
    pieceBytes: number,
    oneByOne: 0 | 1,
    onResult: (result?: TransactResult) => void,
  ): TransactResult | undefined;
  /** Settles every call on the socket that is past its deadline, even when the kernel still holds it. */
  expire(socket: SocketHandle): void;
  watch(socket: SocketHandle, onDatagram: OnDatagram): void;
  close(socket: SocketHandle): void;
  forbidCoreDumps(): void;
  readPeer(fd: number): SocketPeer;
  readLegacyTable(name: string, family: number, maxBytes: number): Uint8Array;
}

/** The bundle has the addon beside it; the sources have it where `make build` puts it. */
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
      `Cannot load the native addon: neither ${paths.join(" nor ")} exists; \`make build\` makes it`,
    );
  }
  return createRequire(import.meta.url)(path) as Addon;
}
