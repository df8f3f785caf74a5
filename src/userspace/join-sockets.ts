import type { Socket } from "node:net";

/**
 * Joins two connections until both directions have ended or one connection breaks. If a receiver is slow, data waits in
 * the sender's socket. When one direction ends, forwards its end and continues the other direction. Also forwards
 * resets.
 */
export function joinSockets(client: Socket, backend: Socket): void {
  if (client.destroyed) return void backend.destroy();
  for (const [one, other] of [
    [client, backend],
    [backend, client],
  ] as const) {
    one.on("error", () => other.resetAndDestroy());
    // A socket that closes before EOF was cut off, so the other socket is destroyed too. After EOF, data may still be
    // on its way to the other socket, which must stay open.
    one.on("close", () => {
      if (!one.readableEnded) other.destroy();
    });
    one.pipe(other);
  }
}
