/** Clients that hold connections, send slowly, or send requests without reading. Probes must still be answered. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { systemClock } from "../../src/base/clock.ts";
import type { IpAddress } from "../../src/base/ip.ts";
import { silentLogger } from "../../src/base/log.ts";
import { HttpListener } from "../../src/daemon/http/http-listener.ts";

const connectionCount = 10_000;
const atOnce = 100;
const pipelined = 20_000;
const body = "x".repeat(10_000);

let listener: HttpListener;
let port: number;
const sockets = new Set<Socket>();

beforeEach(async () => {
  listener = new HttpListener(
    { clock: systemClock, log: silentLogger },
    {
      name: "test server",
      address: { address: "127.0.0.1" as IpAddress, port: 0 },
      isFailureFatal: true,
      respond: () => ({ status: 200, headers: {}, body }),
    },
  );
  await listener.start();
  port = listener.port ?? 0;
});

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await listener.stop();
});

async function open(): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1" });
  sockets.add(socket);
  socket.on("error", () => {});
  socket.on("close", () => sockets.delete(socket));
  await once(socket, "connect").catch(() => {});
  return socket;
}

/** A load balancer's probe: one connection with one request. */
async function probe(): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/healthz`, {
    headers: { connection: "close" },
    signal: AbortSignal.timeout(20_000),
  });
  assert.equal(answer.status, 200);
  assert.equal((await answer.text()).length, body.length);
}

describe("a listener that is open to the network", () => {
  it(`answers probes while ${connectionCount} idle connections are open`, async (test) => {
    let probes = 0;
    for (let count = 0; count < connectionCount; count += atOnce) {
      await Promise.all(Array.from({ length: atOnce }, open));
      if (count % 1_000 !== 0) continue;
      await probe();
      probes += 1;
    }
    await probe();
    assert.ok(sockets.size <= 400, `${sockets.size} connections are open`);
    test.diagnostic(`${probes + 1} probes answered with ${connectionCount} silent connections`);
  });

  it("ends a connection whose headers arrive one byte at a time", async () => {
    const socket = await open();
    const ended = once(socket, "close");
    const beganMs = performance.now();
    const dripping = setInterval(() => socket.write("a"), 200);
    socket.write("GET /healthz HTTP/1.1\r\nX: ");
    socket.resume();
    await Promise.race([ended, pause(30_000, undefined, { ref: false })]);
    clearInterval(dripping);
    assert.ok(socket.destroyed, `still open after ${performance.now() - beganMs} ms`);
  });

  it(`buffers little for a client that sends ${pipelined} requests and reads nothing`, async (test) => {
    const before = process.memoryUsage().rss;
    const socket = await open();
    socket.pause();
    socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".repeat(pipelined));
    await pause(2_000);
    await probe();
    const grownMb = (process.memoryUsage().rss - before) / 2 ** 20;
    assert.ok(grownMb < 100, `${grownMb.toFixed(0)} MB`);
    test.diagnostic(
      `${grownMb.toFixed(0)} MB, of ${((pipelined * body.length) / 2 ** 20).toFixed(0)} MB requested`,
    );
  });
});
