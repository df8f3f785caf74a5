/**
 * The cluster's DNS server, on the control plane's address: `node test/cluster/dns.ts CREDENTIALS-FOLDER`. Debian has
 * no CoreDNS package. It serves A and CNAME records of Services and of headless Services' endpoints, read from the API
 * server.
 */
import { createSocket } from "node:dgram";
import { readFileSync } from "node:fs";
import { request } from "node:https";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { answerTo, type Records } from "./dns-message.ts";
import { type EndpointSlice, recordsOf, type Service } from "./dns-records.ts";
import { apiServer, gateway } from "./network.ts";

const port = 53;
const pollMs = 500;
const [folder = "."] = process.argv.slice(2);
const read = (file: string): Buffer => readFileSync(join(folder, file));
const credentials = { ca: read("ca.crt"), cert: read("admin.crt"), key: read("admin.key") };

function list<T>(path: string): Promise<readonly T[]> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly T[]>();
  const asked = request(`${apiServer}${path}`, { ...credentials, timeout: 10_000 }, (response) => {
    let text = "";
    response.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    response.once("error", reject);
    response.once("end", () => {
      if (response.statusCode !== 200) reject(new Error(`GET ${path}: ${response.statusCode}`));
      else resolve((JSON.parse(text) as { readonly items: readonly T[] }).items);
    });
  });
  asked.once("timeout", () => asked.destroy(new Error(`GET ${path}: timeout`)));
  asked.once("error", reject);
  asked.end();
  return promise;
}

let records: Records = new Map();

const udp = createSocket("udp4");
udp.on("message", (query, from) => udp.send(answerTo(query, records), from.port, from.address));
udp.bind(port, gateway);

// TCP queries begin with their length. Resolvers send a query in one packet, so a partial query closes the connection.
createServer((socket) => {
  socket.on("error", () => socket.destroy());
  socket.on("data", (chunk) => {
    if (chunk.length < 2 || chunk.readUInt16BE(0) !== chunk.length - 2) return socket.destroy();
    const answer = answerTo(chunk.subarray(2), records);
    const length = Buffer.alloc(2);
    length.writeUInt16BE(answer.length);
    return socket.write(Buffer.concat([length, answer]));
  });
}).listen(port, gateway);

for (;;) {
  try {
    const services = await list<Service>("/api/v1/services");
    records = recordsOf(
      services,
      await list<EndpointSlice>("/apis/discovery.k8s.io/v1/endpointslices"),
    );
  } catch (error) {
    console.error(String(error));
  }
  await sleep(pollMs);
}
