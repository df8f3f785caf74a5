import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";

/** Cuts a connection with a TCP reset; under TLS, where Node.js offers none, without a word. */
export function resetSocket(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}
