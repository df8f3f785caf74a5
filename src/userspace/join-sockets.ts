import type { Socket } from "node:net";

/**
 * Joins two connections until both directions have ended, or one of them breaks. Data waits in the sender's socket while
 * the receiver is slow; the end of one direction is passed on while the other goes on; so is a reset.
 */
export function joinSockets(client: Socket, backend: Socket): void {
  if (client.destroyed) return void backend.destroy();
  for (const [one, other] of [
    [client, backend],
    [backend, client],
  ] as const) {
    one.on("error", () => other.resetAndDestroy());
    // Whoever was cut has not ended; whoever ended may still have data on its way to the other.
    one.on("close", () => {
      if (!one.readableEnded) other.destroy();
    });
    one.pipe(other);
  }
}
