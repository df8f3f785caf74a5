import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";

/**
 * Cuts a connection with a TCP reset. With TLS, closes it without a reset, which Node.js does not support there.
 */
export function resetSocket(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}
