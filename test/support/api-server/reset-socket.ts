import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";

/** Cuts a connection with a TCP reset; under TLS, where Node.js offers none, silently. */
export function resetSocket(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}
