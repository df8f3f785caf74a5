/**
 * `relay.ts ADDRESS PORT TARGET_PORT FILE`: forwards connections from ADDRESS:PORT to ADDRESS:TARGET_PORT. Each second, it
 * writes the number of connections and the bytes in both directions to FILE as JSON.
 */
import { renameSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";

export interface Traffic {
  readonly connections: number;
  readonly bytes: number;
}

const [host = "", port = "", targetPort = "", file = ""] = process.argv.slice(2);
let [connections, bytes] = [0, 0];

const server = createServer((client) => {
  connections += 1;
  const upstream = connect({ host, port: Number(targetPort) });
  const ends = [client, upstream] as const;
  for (const end of ends) {
    const other = end === client ? upstream : client;
    end.on("data", (chunk) => {
      bytes += chunk.length;
    });
    end.on("error", () => other.destroy());
    end.on("close", () => other.destroy());
    end.pipe(other);
  }
});
server.listen({ host, port: Number(port) });
setInterval(() => {
  writeFileSync(`${file}.new`, JSON.stringify({ connections, bytes } satisfies Traffic));
  renameSync(`${file}.new`, file);
}, 1_000);
