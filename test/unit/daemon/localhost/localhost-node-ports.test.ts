/** Node ports on the loopback addresses: which are served, and that bytes, datagrams and ends of connections pass. */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { Forwarder } from "../../../../src/daemon/localhost/forwarder.ts";
import { LocalhostNodePorts } from "../../../../src/daemon/localhost/localhost-node-ports.ts";
import { planService, type ServicePlan } from "../../../../src/plan/planner.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import {
  endpointRecord,
  ip,
  planOptions,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../../support/records.ts";

const parts = { clock: systemClock, log: silentLogger, udpIdleMs: () => 300_000 };
const loopback = ip("127.0.0.1");

function plans(...nodePorts: readonly number[]): readonly ServicePlan[] {
  const ports = nodePorts.flatMap((nodePort) =>
    (["TCP", "UDP", "SCTP"] as const).map((protocol) =>
      portRecord({ name: `${protocol.toLowerCase()}-${nodePort}`, protocol, nodePort }),
    ),
  );
  const service = serviceRecord({ type: "NodePort", ports });
  return planService(
    service.name,
    service,
    [sliceRecord([endpointRecord("10.244.2.11")])],
    planOptions(),
  );
}

describe("LocalhostNodePorts", () => {
  it("forwards TCP and UDP to the same port of the node, and keeps unchanged listeners", async () => {
    const events: string[] = [];
    const nodePorts = new LocalhostNodePorts({
      ...parts,
      makeForwarder: ({ protocol, from, to }) => {
        const text = `${protocol} ${from.address}:${from.port} to ${to.address}:${to.port}`;
        const note = (event: string): Promise<void> => {
          events.push(`${event} ${text}`);
          return Promise.resolve();
        };
        return { start: () => note("start"), stop: () => note("stop") };
      },
    });
    const serve = async (wanted: readonly ServicePlan[]): Promise<readonly string[]> => {
      for (const plan of wanted) nodePorts.note(plan);
      await nodePorts.serve(planOptions());
      return events.splice(0);
    };
    const both = (event: string, port: number): readonly string[] =>
      ["TCP", "UDP"].map(
        (protocol) => `${event} ${protocol} 127.0.0.1:${port} to 192.168.10.11:${port}`,
      );
    assert.deepEqual(await serve(plans(30_080)), both("start", 30_080));
    assert.deepEqual(await serve(plans(30_080, 30_081)), both("start", 30_081));
    assert.deepEqual(await serve(plans(30_081)), both("stop", 30_080));
    assert.deepEqual(await serve([]), []);
    await nodePorts.stop();
    assert.deepEqual(events, both("stop", 30_081));
  });
});

describe("Forwarder of TCP", () => {
  let target: Server;
  let port = 0;
  const accepted: Socket[] = [];
  let forwarder: Forwarder;

  before(async () => {
    target = createServer({ allowHalfOpen: true }, (socket) => {
      accepted.push(socket);
      socket.on("error", () => {});
      socket.pipe(socket);
    });
    target.listen(0, loopback);
    await once(target, "listening");
    port = await freePort();
    const to = { address: loopback, port: (target.address() as AddressInfo).port };
    forwarder = new Forwarder(parts, {
      ...{ service: "default/a:http", protocol: "TCP" },
      from: { address: loopback, port },
      to,
    });
    await forwarder.start();
  });
  after(async () => {
    await forwarder.stop();
    target.close();
  });

  it("passes bytes in both directions, and the end of one direction", async () => {
    const client = connect({ port, host: loopback, allowHalfOpen: true });
    client.end("hello");
    const received: Buffer[] = [];
    for await (const part of client) received.push(part as Buffer);
    assert.equal(Buffer.concat(received).toString(), "hello");
  });

  it("passes a reset", async () => {
    const client = connect({ port, host: loopback });
    client.write("x");
    await once(client, "data");
    accepted.at(-1)?.resetAndDestroy();
    const [error] = await once(client, "error");
    assert.equal((error as NodeJS.ErrnoException).code, "ECONNRESET");
  });

  it("reports once that a port is in use", async () => {
    const log = new RecordingLogger();
    const second = new Forwarder(
      { ...parts, log },
      {
        ...{ service: "default/b:http", protocol: "TCP" },
        from: { address: loopback, port },
        to: { address: loopback, port },
      },
    );
    await second.start();
    await second.stop();
    assert.deepEqual(
      log.lines.map(({ event, keys }) => [event, keys["service"]]),
      [["Cannot listen on the loopback address for a node port, retrying", "default/b:http"]],
    );
  });
});

describe("Forwarder of UDP", () => {
  it("gives each client its own socket, and passes the answers back", async (test) => {
    const seen: string[] = [];
    const target = createSocket("udp4");
    target.on("message", (data, { port, address }) => {
      seen.push(`${data} ${port}`);
      target.send(`${data} back`, port, address);
    });
    await new Promise<void>((resolve) => target.bind(0, loopback, resolve));
    const nodePort = {
      ...{ service: "default/a:dns", protocol: "UDP" as const },
      from: { address: loopback, port: await freePort() },
      to: { address: loopback, port: target.address().port },
    };
    const forwarder = new Forwarder(parts, nodePort);
    await forwarder.start();
    const log = new RecordingLogger();
    const late = new Forwarder({ ...parts, log }, nodePort);
    const clients = [createSocket("udp4"), createSocket("udp4")];
    test.after(async () => {
      for (const socket of clients) socket.close();
      await Promise.all([forwarder.stop(), late.stop()]);
      target.close();
    });
    for (const [index, client] of clients.entries()) {
      client.send(`hello ${index}`, nodePort.from.port, loopback);
      const [data] = await once(client, "message");
      assert.equal(String(data), `hello ${index} back`);
    }
    clients[0]?.send("again", nodePort.from.port, loopback);
    await once(clients[0] as (typeof clients)[0], "message");
    const ports = seen.map((text) => text.split(" ").at(-1));
    assert.equal(ports[0], ports[2], "one client, one socket");
    assert.notEqual(ports[0], ports[1]);
    await late.start();
    assert.deepEqual(
      log.lines.map(({ keys }) => [keys["service"], keys["protocol"]]),
      [["default/a:dns", "UDP"]],
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
