import type { Socket } from "node:net";

/**
 * Joins two connections until both directions have ended or one connection breaks. If a receiver is slow, data waits in
 * the sender's socket. Forwards the end of one direction while the other continues, and forwards resets.
 */
export function joinSockets(client: Socket, backend: Socket): void {
  if (client.destroyed) return void backend.destroy();
  for (const [one, other] of [
    [client, backend],
    [backend, client],
  ] as const) {
    one.on("error", () => other.resetAndDestroy());
    // A socket that closes before EOF was cut off, so the other one is destroyed too. After EOF, data may still be in
    // transit to the other socket, which must stay open.
    one.on("close", () => {
      if (!one.readableEnded) other.destroy();
    });
    one.pipe(other);
  }
}
