/**
 * A pod that sends its name: `node pod-traffic.ts NAME [TCP-PORT [UDP-PORT]]`. Over TCP, the client's first line is a
 * request: `name` (sends the name, then closes the connection), `echo` (sends each line back, preceded by the name), or
 * `send N` (sends N bytes at about 10 MB/s, then nothing). Over UDP, it sends each datagram back, preceded by the name.
 */
import { createSocket } from "node:dgram";
import { createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";

const [name = "pod", tcpPort = "8080", udpPort = "5353"] = process.argv.slice(2);
const chunk: Buffer = Buffer.alloc(100_000, name);
const chunkIntervalMs = 10;

createServer((socket) => {
  socket.on("error", () => socket.destroy());
  const lines = createInterface(socket);
  // readline emits the socket's errors.
  lines.on("error", () => {});
  lines.once("line", (request) => answer(socket, request.split(" ")));
  lines.on("line", (line) => {
    if (line.startsWith("ping")) socket.write(`${name} ${line}\n`);
  });
}).listen(Number(tcpPort));

const datagrams = createSocket("udp4");
datagrams.on("message", (text, { address, port }) => {
  datagrams.send(`${name} ${text.toString()}`, port, address);
});
datagrams.bind(Number(udpPort), "0.0.0.0", () => console.log("ready"));

function answer(socket: Socket, [request, size]: readonly string[]): void {
  if (request === "name") socket.end(`${name}\n`);
  else if (request === "echo") socket.write(`${name}\n`);
  else sendBytes(socket, Number(size));
}

function sendBytes(socket: Socket, size: number): void {
  let left = size;
  const timer = setInterval(() => {
    const length = Math.min(left, chunk.length);
    left -= length;
    socket.write(chunk.subarray(0, length));
    if (left === 0 || socket.destroyed) clearInterval(timer);
  }, chunkIntervalMs);
}
