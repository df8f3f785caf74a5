/** A backend that answers each request with its name and the client address that it saw. `node pod.ts NAME PORT` */
import { createServer } from "node:http";

const [name = "pod", port = "8080"] = process.argv.slice(2);

const server = createServer((request, response) => {
  const source = request.socket.remoteAddress?.replace("::ffff:", "") ?? "";
  response.setHeader("Connection", "close");
  response.end(JSON.stringify({ name, source }));
});
server.listen(Number(port), "0.0.0.0");
