/**
 * The cluster's DNS server, on the control plane's address: `node test/cluster/dns.ts CREDENTIALS-FOLDER`. Debian has
 * no CoreDNS package. It serves A, AAAA and CNAME records for Services and headless Services' endpoints, read from the
 * API server.
 */
import { createSocket } from "node:dgram";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiClient } from "./api-client.ts";
import { answerTo, type Records } from "./dns-message.ts";
import { type EndpointSlice, recordsOf, type Service } from "./dns-records.ts";
import { gateway } from "./network.ts";

const port = 53;
const pollMs = 500;
const [folder = "."] = process.argv.slice(2);
const client = new ApiClient(folder);

let records: Records = new Map();

const udp = createSocket("udp4");
udp.on("message", (query, from) => udp.send(answerTo(query, records), from.port, from.address));
udp.bind(port, gateway);

// TCP queries begin with their length. Resolvers send a query in one packet, so the server rejects a partial query.
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
    const services = await client.list<Service>("/api/v1/services");
    records = recordsOf(
      services,
      await client.list<EndpointSlice>("/apis/discovery.k8s.io/v1/endpointslices"),
    );
  } catch (error) {
    console.error(String(error));
  }
  await sleep(pollMs);
}
