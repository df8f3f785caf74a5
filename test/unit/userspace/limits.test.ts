/** Tests userspace mode's connection and socket limits with real sockets. */
import assert from "node:assert/strict";
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { RefusedConnections } from "../../../src/userspace/refused-connections.ts";
import type { ServiceListener } from "../../../src/userspace/service-listeners.ts";
import { ServiceQuota, socketQuotas } from "../../../src/userspace/service-quota.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";
import { listenerFor, ProxierStage, tcpServer, udpServer } from "./backends.ts";

const limitReached =
  "Connection limit reached, closing new TCP connections and the longest-idle UDP clients";

/** Serves the Services and returns their local ports in the same order. */
async function serveAll(
  { proxier }: ProxierStage,
  wanted: readonly ServiceListener[],
): Promise<readonly number[]> {
  await proxier.replaceServices(new Map(wanted.map((one) => [one.service, [one]])));
  const open = proxier.open();
  return wanted.map((one) => open.find((each) => each.wanted === one)?.localPorts.port ?? 0);
}

function other(wanted: ServiceListener, name: string): ServiceListener {
  return { ...wanted, key: `${wanted.key} ${name}`, service: name, portName: name };
}

/** Returns a connection that has received its first answer, or `undefined` if it was closed. */
async function answered(test: TestContext, port: number): Promise<Socket | undefined> {
  const socket = connect(port, "127.0.0.1");
  test.after(() => socket.destroy());
  socket.on("error", () => {});
  socket.write("x");
  const isAnswered = await Promise.race([
    once(socket, "data").then(
      () => true,
      () => false,
    ),
    new Promise<boolean>((resolve) => socket.once("close", () => resolve(false))),
  ]);
  return isAnswered ? socket : undefined;
}

describe("a flood of TCP connections to one Service", () => {
  it("is closed beyond the limit, does not affect other Services, and ends with its connections", async (test) => {
    const echo = await tcpServer(test, (socket) => socket.pipe(socket));
    const quotas = { connections: { total: 100, perService: 20 } };
    const stage = new ProxierStage(test, { quotas });
    const web = listenerFor([echo]);
    const [flooded = 0, quiet = 0] = await serveAll(stage, [web, other(web, "default/quiet")]);
    const flood = await Promise.all(Array.from({ length: 60 }, () => answered(test, flooded)));
    const open = flood.filter((socket) => socket !== undefined);
    assert.deepEqual([open.length, stage.proxier.openCount], [20, 20]);
    assert.notEqual(await answered(test, quiet), undefined, "another Service");
    const reports = stage.log.lines.filter(({ event }) => event === limitReached);
    assert.deepEqual(
      reports.map(({ level, keys }) => [level, keys["service"]]),
      [["warn", "default/web"]],
    );
    for (const socket of open) socket.destroy();
    while (stage.proxier.openCount > 1) await pause(5);
    assert.notEqual(await answered(test, flooded), undefined, "after the flood");
  });

  it("is closed at the limit of all Services together", async (test) => {
    const echo = await tcpServer(test, (socket) => socket.pipe(socket));
    const quotas = { connections: { total: 2, perService: 2 } };
    const stage = new ProxierStage(test, { quotas });
    const web = listenerFor([echo]);
    const [port = 0, second = 0] = await serveAll(stage, [web, other(web, "default/quiet")]);
    await answered(test, port);
    await answered(test, port);
    assert.equal(await answered(test, second), undefined);
  });
});

describe("UDP clients beyond the limit", () => {
  it("replace the one that has been idle longest, not the oldest", async (test) => {
    const dns = listenerFor([await udpServer(test, "a")], {
      ...{ key: "IPv4 default/dns/UDP", portName: "default/dns", protocol: "UDP" },
    });
    const quotas = { connections: { total: 10, perService: 2 } };
    const stage = new ProxierStage(test, { udpTimeoutMs: 60_000, quotas });
    const port = await stage.serve(dns);
    const [first, second, third] = [udpClient(test), udpClient(test), udpClient(test)];
    const source = await ask(first, port);
    const replaced = await ask(second, port);
    await ask(first, port);
    await ask(third, port);
    assert.equal(stage.proxier.openCount, 2);
    assert.equal(await ask(first, port), source, "the client that is in use");
    assert.notEqual(await ask(second, port), replaced, "a new socket");
  });
});

function udpClient(test: TestContext): UdpSocket {
  const socket = createSocket("udp4");
  test.after(() => socket.close());
  return socket;
}

/** Returns the source port that the backend saw. */
async function ask(socket: UdpSocket, port: number): Promise<string | undefined> {
  socket.send("x", port, "127.0.0.1");
  const signal = AbortSignal.timeout(5_000);
  const [data] = (await once(socket, "message", { signal })) as [Buffer];
  return data.toString().split(":")[1];
}

describe("listener sockets", () => {
  it("are not opened beyond the limit of a Service, but after others close", async (test) => {
    const quotas = { listenerSockets: { total: 3, perService: 2 } };
    const stage = new ProxierStage(test, { quotas });
    const ports = ["a", "b", "c"].map((name) => listenerFor([], { key: name, portName: name }));
    await stage.proxier.replaceServices(new Map([["default/web", ports]]));
    const openOnes = (): string[] =>
      ports.filter(({ key }) => stage.proxier.isOpen(key)).map(({ key }) => key);
    assert.deepEqual(openOnes(), ["a", "b"]);
    const failed = stage.log.lines.find(({ level }) => level === "error");
    assert.match(
      String(failed?.keys["err"]),
      /limit of 2 listener sockets per Service, or 3 in total/,
    );
    await stage.proxier.replaceServices(new Map([["default/web", ports.slice(1)]]));
    assert.deepEqual(openOnes(), ["b", "c"]);
  });
});

describe("a Service's quota", () => {
  it("limits each Service and all together, and is free again after a release", () => {
    const quota = new ServiceQuota({ total: 3, perService: 2 });
    const taken = ["a", "a", "a", "b", "b"].map((service) => quota.take(service));
    assert.deepEqual(taken, [true, true, false, true, false]);
    quota.release("a");
    assert.deepEqual([quota.take("b"), quota.take("a")], [true, false]);
  });

  it("leaves file descriptors for the rest of the process, and three quarters of the connections for other Services", () => {
    const configured = { total: 16_384, perService: 4_096 };
    for (const openFiles of [64, 256, 1_024, 4_096, 65_536, 1_048_576, Number.MAX_SAFE_INTEGER]) {
      const { connections, listenerSockets } = socketQuotas(openFiles, configured);
      const most = 2 * connections.total + listenerSockets.total;
      assert.ok(most <= openFiles - Math.min(512, openFiles / 2), `${openFiles} files: ${most}`);
      assert.ok(connections.perService <= Math.ceil(connections.total / 4));
      assert.ok(connections.perService >= 1 && listenerSockets.perService >= 1);
    }
    assert.deepEqual(socketQuotas(1_048_576, configured).connections, configured);
    assert.deepEqual(socketQuotas(1_024, configured), {
      connections: { total: 128, perService: 32 },
      listenerSockets: { total: 256, perService: 64 },
    });
  });
});

describe("refused connections", () => {
  it("are reported at most once per minute for each Service, with their number", async () => {
    const [clock, log] = [new FakeClock(), new RecordingLogger()];
    const reported: (readonly [string, number])[] = [];
    const onRefused = (service: string, count: number): number => reported.push([service, count]);
    const refused = new RefusedConnections({ clock, log, onRefused });
    for (let count = 0; count < 1_000; count += 1) refused.note("default/web");
    refused.note("default/other");
    refused.sweep();
    await clock.advance(60_000);
    refused.sweep();
    await clock.advance(60_000);
    refused.sweep();
    assert.deepEqual(
      log.lines.map(({ keys }) => [keys["service"], keys["refused"]]),
      [
        ["default/web", 1],
        ["default/other", 1],
        ["default/web", 999],
      ],
    );
    assert.deepEqual(reported, [
      ["default/web", 1],
      ["default/other", 1],
      ["default/web", 999],
    ]);
  });
});
