/** TCP node ports on the loopback addresses: which are served, and that bytes and ends of connections pass. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { LocalhostNodePorts } from "../../../../src/daemon/localhost/localhost-node-ports.ts";
import {
  TcpForwarder,
  type TcpForwarderOptions,
} from "../../../../src/daemon/localhost/tcp-forwarder.ts";
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

const parts = { clock: systemClock, log: silentLogger };
const loopback = ip("127.0.0.1");

function plans(...nodePorts: readonly number[]): readonly ServicePlan[] {
  const ports = nodePorts.flatMap((nodePort) =>
    (["TCP", "UDP"] as const).map((protocol) =>
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
  it("forwards TCP alone, to the same port of the node, and keeps what stays", async () => {
    const events: string[] = [];
    const nodePorts = new LocalhostNodePorts({
      ...parts,
      makeForwarder: ({ from, to }: TcpForwarderOptions) => {
        const text = `${from.address}:${from.port} to ${to.address}:${to.port}`;
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
    const [first, second] = [30_080, 30_081].map(
      (port) => `127.0.0.1:${port} to 192.168.10.11:${port}`,
    );
    assert.deepEqual(await serve(plans(30_080)), [`start ${first}`]);
    assert.deepEqual(await serve(plans(30_080, 30_081)), [`start ${second}`]);
    assert.deepEqual(await serve(plans(30_081)), [`stop ${first}`]);
    assert.deepEqual(await serve([]), []);
    await nodePorts.stop();
    assert.deepEqual(events, [`stop ${second}`]);
  });
});

describe("TcpForwarder", () => {
  let target: Server;
  let port = 0;
  const accepted: Socket[] = [];
  let forwarder: TcpForwarder;

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
    forwarder = new TcpForwarder(parts, {
      service: "default/a:http",
      from: { address: loopback, port },
      to,
    });
    await forwarder.start();
  });
  after(async () => {
    await forwarder.stop();
    target.close();
  });

  it("passes bytes in both directions, and the end of one of them", async () => {
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

  it("says once that a port is taken", async () => {
    const log = new RecordingLogger();
    const second = new TcpForwarder(
      { ...parts, log },
      {
        service: "default/b:http",
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

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, loopback);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
