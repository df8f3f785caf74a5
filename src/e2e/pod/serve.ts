/** `kube-ipvs-e2e serve NAME`: a backend that answers with its name over TCP and UDP. */
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { writeSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { backendPort, greeting, requests } from "./conversation.ts";

/** Serves until SIGTERM. Prints a line when both sockets are listening. */
export async function run([name = ""]: readonly string[]): Promise<undefined> {
  const server = createServer((socket) => serveClient(socket, name));
  // Without a host, Node.js listens on both families, or only on IPv4 if the node has no IPv6.
  server.listen(backendPort);
  await once(server, "listening");
  await openDatagrams(name);
  writeSync(1, "Ready\n");
  await once(process, "SIGTERM");
}

function serveClient(socket: Socket, name: string): void {
  socket.on("error", () => socket.destroy());
  const lines = createInterface(socket);
  // readline emits the errors of the socket.
  lines.on("error", () => {});
  lines.once("line", (request) => {
    socket.write(`${greeting(name, socket.remoteAddress)}\n`);
    if (request === requests.hold) lines.on("line", (line) => socket.write(`${line}\n`));
    else socket.end();
  });
}

async function openDatagrams(name: string): Promise<void> {
  const socket = await bound("udp6").catch(() => bound("udp4"));
  socket.on("message", (_text, { address, port }) => {
    socket.send(greeting(name, address), port, address, () => {});
  });
}

async function bound(family: "udp4" | "udp6"): Promise<UdpSocket> {
  const socket = createSocket(family);
  socket.bind(backendPort);
  await once(socket, "listening");
  return socket;
}
