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
    // If a socket closes before its data has ended, it was cut, so the other one is destroyed too. If its data has
    // ended, some of it may still be on the way to the other socket, which must remain open.
    one.on("close", () => {
      if (!one.readableEnded) other.destroy();
    });
    one.pipe(other);
  }
}
