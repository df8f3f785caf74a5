import type { Socket } from "node:net";

/**
 * Joins two connections until both directions have ended or one connection breaks. If a receiver is slow, data waits
 * in the sender's socket. Passes on the end of one direction while the other continues, and passes on resets.
 */
export function joinSockets(client: Socket, backend: Socket): void {
  if (client.destroyed) return void backend.destroy();
  for (const [one, other] of [
    [client, backend],
    [backend, client],
  ] as const) {
    one.on("error", () => other.resetAndDestroy());
    // A socket that closes without having ended was cut. If it has ended, its data may still be on the way to the
    // other.
    one.on("close", () => {
      if (!one.readableEnded) other.destroy();
    });
    one.pipe(other);
  }
}
