/** The process at the other end of a unix socket. */
import { addon, type SocketPeer } from "./load-addon.ts";

export type { SocketPeer } from "./load-addon.ts";

/** Reads the peer of a connected socket. Throws an Error with `errno`, such as ENOTSOCK. */
export function readPeer(fd: number): SocketPeer {
  return addon().readPeer(fd);
}
