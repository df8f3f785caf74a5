import { once } from "node:events";
import { createConnection, createServer, type Socket } from "node:net";
import type { LoopbackNodePort } from "../../plan/loopback-node-ports.ts";
import { joinSockets } from "../../userspace/join-sockets.ts";
import type { Forwarding } from "./forwarder.ts";

/** Only processes of this node connect; more than this at once is a mistake of one of them. */
const maxConnections = 1_000;

/** Accepts connections at one address and makes one to another for each. Rejects where it cannot listen. */
export async function openTcpForwarding({
  from,
  to,
}: Pick<LoopbackNodePort, "from" | "to">): Promise<Forwarding> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const { address: host, port } = to;
    const target = createConnection({ host, port, allowHalfOpen: true, noDelay: true });
    for (const socket of [client, target]) {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
    }
    joinSockets(client, target);
  });
  server.maxConnections = maxConnections;
  server.listen({ host: from.address, port: from.port });
  await once(server, "listening");
  // It goes on listening, whatever becomes of one connection.
  server.on("error", () => {});
  return {
    close: () => {
      for (const socket of sockets) socket.resetAndDestroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
