/** A backend in a separate process: port 8080 echoes, and port 8081 sends 256 MiB to each client. */
import { createServer } from "node:net";

const [, , address = "127.0.0.1"] = process.argv;
const chunk = Buffer.alloc(65_536, 1);
const chunks = 4_096;

createServer({ noDelay: true }, (socket) => {
  socket.on("error", () => socket.destroy());
  socket.pipe(socket);
}).listen({ port: 8_080, host: address, backlog: 2_048 });

createServer((socket) => {
  socket.on("error", () => socket.destroy());
  let sent = 0;
  const send = (): void => {
    while (sent < chunks) {
      sent += 1;
      if (!socket.write(chunk)) return void socket.once("drain", send);
    }
    socket.end();
  };
  send();
}).listen({ port: 8_081, host: address }, () => process.stdout.write("ready\n"));
