/** Finds and loads the addon at its first use, never at import, so that everything above can be tested without it. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { OpenOptions, SocketHandle, TransactResult } from "./netlink-socket.d.ts";

/** What `addon.c` exports. */
export interface Addon {
  open(protocol: number, options: OpenOptions): SocketHandle;
  /** Calls back once, after it has returned; or returns the result of a call that it refused. */
  submit(
    socket: SocketHandle,
    buffer: Uint8Array,
    offset: number,
    length: number,
    lastSequence: number,
    timeoutMs: number,
    pieceBytes: number,
    oneByOne: boolean,
    onResult: (result: TransactResult) => void,
  ): TransactResult | undefined;
  /** Settles every call on the socket that is past its deadline, even when the kernel still holds it. */
  expire(socket: SocketHandle): void;
  transactSync(
    socket: SocketHandle,
    buffer: Uint8Array,
    offset: number,
    length: number,
    lastSequence: number,
    timeoutMs: number,
  ): TransactResult;
  watch(socket: SocketHandle, onDatagram: (errno: number, datagram: Uint8Array) => void): void;
  close(socket: SocketHandle): void;
  forbidCoreDumps(): void;
  readLegacyTable(family: number, name: string, maxBytes: number): Uint8Array;
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
