/** A backend that answers with its name, the source that it saw and the number of bytes that arrived. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { type Answer, answerText, type Listener, parseRequest } from "./probe.ts";
import { answerSctp } from "./sctp.ts";

const headBytes = 32;

/** Resolves when all listeners are open. */
export async function answerOn(listeners: readonly Listener[], name: string): Promise<void> {
  const of = (protocol: Listener["protocol"]): readonly Listener[] =>
    listeners.filter((listener) => listener.protocol === protocol);
  await Promise.all([
    ...of("TCP").map((listener) => answerTcp(listener, name)),
    ...of("UDP").map((listener) => answerUdp(listener, name)),
    answerSctp(of("SCTP"), name),
  ]);
}

async function answerTcp({ address, port }: Listener, name: string): Promise<void> {
  const server = createServer((socket) => answerConnection(socket, name));
  server.listen(port, address);
  await once(server, "listening");
}

/**
 * Answers as soon as the announced number of bytes has arrived, so that neither side has to close the connection first.
 */
function answerConnection(socket: Socket, backend: string): void {
  let head = "";
  let received = 0;
  socket.on("error", () => socket.destroy());
  socket.on("data", (chunk: Buffer) => {
    received += chunk.length;
    if (head.length < headBytes) head += chunk.toString("latin1", 0, headBytes);
    const request = parseRequest(head);
    if (request === undefined) return;
    const receivedBytes = received - request.headBytes;
    if (receivedBytes < request.payloadBytes) return;
    const answer = { backend, source: plain(socket.remoteAddress), receivedBytes };
    socket.write(answerText(answer, request.answerBytes));
  });
}

async function answerUdp({ address, port }: Listener, backend: string): Promise<void> {
  const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
  socket.on("message", (message, { address: source, port: sourcePort }) => {
    const request = parseRequest(message.toString("latin1", 0, headBytes));
    if (request === undefined) return;
    const receivedBytes = message.length - request.headBytes;
    const answer: Answer = { backend, source: plain(source), receivedBytes };
    // The error belongs to an earlier answer that was too large. The client asks again.
    socket.send(answerText(answer, request.answerBytes), sourcePort, source, () => {});
  });
  // A client that has exited causes an ICMP error.
  socket.on("error", () => {});
  socket.bind(port, address);
  await once(socket, "listening");
}

/** Converts an IPv4-mapped address from a dual-stack socket. */
function plain(address: string | undefined): string {
  return (address ?? "").replace(/^::ffff:/, "");
}
