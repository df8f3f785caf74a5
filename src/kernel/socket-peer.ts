/** The process at the other end of a connected unix socket. */
import type { Socket } from "node:net";
import { readPeer, type SocketPeer } from "../../native-shim/socket-peer.ts";
import { attempt } from "../base/attempt.ts";

export type { SocketPeer } from "../../native-shim/socket-peer.ts";

/** Undefined if the peer cannot be read because the socket is closed. */
export function peerOf(socket: Socket): SocketPeer | undefined {
  // Node.js has no public API for a socket's descriptor.
  const { fd = -1 } =
    (socket as { readonly _handle?: { readonly fd?: number } | null })._handle ?? {};
  return fd < 0 ? undefined : attempt(() => readPeer(fd));
}
