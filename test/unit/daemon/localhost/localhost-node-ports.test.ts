/**
 * Tests that the right node ports are served on loopback addresses, and that connections and datagrams reach the node's
 * address.
 */

import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import { LocalhostNodePorts } from "../../../../src/daemon/localhost/localhost-node-ports.ts";
import type { ServicePlan } from "../../../../src/plan/planner.ts";
import { planService } from "../../../support/plan-at-once.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import {
  endpointRecord,
  familyOptions,
  ip,
  planOptions,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../../support/records.ts";

const loopback = "127.0.0.1";
/** The node's own address, where the test stands in for IPVS. */
const nodeIp = "127.0.0.2";

const own = { nodeIp: ip(nodeIp), nodePortAddresses: [ip(nodeIp)] };
const options = planOptions({ families: new Map([["IPv4", familyOptions("IPv4", own)]]) });

function plans(...nodePorts: readonly number[]): readonly ServicePlan[] {
  const ports = nodePorts.flatMap((nodePort) =>
    (["TCP", "UDP", "SCTP"] as const).map((protocol) =>
      portRecord({ name: `${protocol.toLowerCase()}-${nodePort}`, protocol, nodePort }),
    ),
  );
  const service = serviceRecord({ type: "NodePort", ports });
  const slice = sliceRecord([endpointRecord("10.244.2.11")]);
  return planService(service.name, service, [slice], options);
}

describe("LocalhostNodePorts", () => {
  let node: Server;
  let port = 0;
  let log: RecordingLogger;
  let nodePorts: LocalhostNodePorts;

  before(async () => {
    node = createServer((socket) => {
      socket.on("error", () => {});
      socket.pipe(socket);
    });
    node.listen(0, nodeIp);
    await once(node, "listening");
    ({ port } = node.address() as AddressInfo);
  });
  after(() => node.close());
  beforeEach(() => {
    log = new RecordingLogger();
    nodePorts = new LocalhostNodePorts({ clock: systemClock, log, udpIdleMs: () => 300_000 });
  });
  afterEach(() => nodePorts.stop());

  async function serve(...ports: readonly number[]): Promise<void> {
    for (const plan of plans(...ports)) nodePorts.note(plan);
    await nodePorts.serve(options);
  }

  async function connected(to: number): Promise<Socket> {
    const client = connect({ port: to, host: loopback });
    client.on("error", () => {});
    client.write("hello");
    const [data] = await once(client, "data");
    assert.equal(String(data), "hello");
    return client;
  }

  async function isRefused(to: number): Promise<boolean> {
    const [error] = await once(connect({ port: to, host: loopback }), "error");
    return (error as NodeJS.ErrnoException).code === "ECONNREFUSED";
  }

  it("forwards TCP to the same port of the node, and keeps unchanged listeners", async () => {
    await serve(port);
    const client = await connected(port);
    await serve(port, await freePort());
    client.write("again");
    const [data] = await once(client, "data");
    assert.equal(String(data), "again");
    client.destroy();
  });

  it("closes the listener and connections of a removed node port", async () => {
    await serve(port);
    const client = await connected(port);
    await serve(await freePort());
    await new Promise((resolve) => client.once("close", resolve));
    assert.ok(await isRefused(port));
  });

  it("forwards UDP with a separate socket for each client", async () => {
    const seen: number[] = [];
    const target = createSocket("udp4");
    target.on("message", (data, from) => {
      seen.push(from.port);
      target.send(`${data} back`, from.port, from.address);
    });
    await new Promise<void>((resolve) => target.bind(port, nodeIp, resolve));
    await serve(port);
    const clients = [createSocket("udp4"), createSocket("udp4")];
    for (const client of [clients[0], clients[1], clients[0]]) {
      client?.send("hello", port, loopback);
      const [data] = await once(client as (typeof clients)[0], "message");
      assert.equal(String(data), "hello back");
    }
    for (const socket of [...clients, target]) socket.close();
    assert.equal(seen[0], seen[2]);
    assert.notEqual(seen[0], seen[1]);
  });

  it("reports a node port that cannot be opened, and serves all other node ports", async () => {
    const taken = createServer().listen(port, loopback);
    await once(taken, "listening");
    await serve(port);
    taken.close();
    assert.deepEqual(
      log.lines.map(({ event, keys }) => [event, keys["protocol"], keys["port"]]),
      [
        ["Cannot listen for Service, retrying", "TCP", port],
        ["Listening for Service", "UDP", port],
      ],
    );
  });
});

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, loopback);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
