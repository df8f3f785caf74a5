import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, describe, it } from "node:test";
import type { IpAddress } from "../../../../src/base/ip.ts";
import {
  type HttpAnswer,
  HttpListener,
  type HttpListenerOptions,
  isLoopbackText,
  ListenError,
} from "../../../../src/daemon/http/http-listener.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { skippedWithoutIpv6 } from "../../../support/ipv6.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

const loopback = "127.0.0.1" as IpAddress;
const ok: HttpAnswer = { status: 200, headers: { "X-Test": "yes" }, body: "fine" };

const closing: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

function listenerWith(options: Partial<HttpListenerOptions> = {}): {
  listener: HttpListener;
  clock: FakeClock;
  log: RecordingLogger;
} {
  const clock = new FakeClock();
  const log = new RecordingLogger();
  const listener = new HttpListener(
    { clock, log },
    {
      name: "test server",
      address: { address: loopback, port: 0 },
      isFailureFatal: false,
      respond: () => ok,
      ...options,
    },
  );
  closing.push(() => listener.stop());
  return { listener, clock, log };
}

/** Starts another server that occupies the port. */
async function busyPort(): Promise<{ port: number; free: () => Promise<void> }> {
  const server: Server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const free = (): Promise<void> => new Promise((resolve) => server.close(() => resolve()));
  closing.push(free);
  return { port: (server.address() as AddressInfo).port, free };
}

/** Sends bytes and collects the response until the other side closes. */
async function talk(port: number | undefined, bytes: string, host = "127.0.0.1"): Promise<string> {
  const socket = await open(port, host);
  let received = "";
  socket.on("data", (chunk) => {
    received += chunk.toString();
  });
  socket.write(bytes);
  await new Promise((resolve) => socket.on("close", resolve));
  return received;
}

async function open(port: number | undefined, host = "127.0.0.1"): Promise<Socket> {
  const socket = connect(port ?? 0, host);
  socket.on("error", () => {});
  closing.push(() => socket.destroy());
  await new Promise((resolve) => socket.on("connect", resolve));
  return socket;
}

describe("HttpListener answers", () => {
  for (const method of ["GET", "POST", "DELETE", "OPTIONS"]) {
    it(method, async () => {
      const { listener } = listenerWith();
      await listener.start();
      const response = await fetch(`http://127.0.0.1:${listener.port}/x`, { method });
      assert.equal(response.status, 200);
      assert.equal(response.headers.get("x-test"), "yes");
      assert.equal(await response.text(), "fine");
    });
  }

  it("HEAD without a body", async () => {
    const { listener } = listenerWith();
    await listener.start();
    const text = await talk(
      listener.port,
      "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    assert.match(text, /^HTTP\/1\.1 200 OK\r\n/);
    assert.ok(text.endsWith("\r\n\r\n"));
  });

  it("with path and query separately", async () => {
    const { listener } = listenerWith({
      respond: ({ path, query, acceptsGzip }) => ({
        ...ok,
        body: `${path} ${query.get("a")} ${acceptsGzip}`,
      }),
    });
    await listener.start();
    const request = "GET //p/%41?a=1?2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert.match(await talk(listener.port, request), /\/\/p\/%41 1 false$/);
  });

  it("500 and a log line if creating the answer fails", async () => {
    const { listener, log } = listenerWith({ respond: () => Promise.reject(new Error("oops")) });
    await listener.start();
    const response = await fetch(`http://127.0.0.1:${listener.port}/`);
    assert.equal(response.status, 500);
    assert.deepEqual(
      log.lines.map(({ event }) => event),
      ["HTTP request failed"],
    );
  });

  it("on both families if it listens on the unspecified IPv4 address", {
    skip: skippedWithoutIpv6,
  }, async () => {
    const { listener } = listenerWith({ address: { address: "0.0.0.0" as IpAddress, port: 0 } });
    await listener.start();
    const request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert.match(await talk(listener.port, request, "127.0.0.1"), /fine$/);
    assert.match(await talk(listener.port, request, "::1"), /fine$/);
  });

  it("400 to invalid HTTP, and to endless headers", async () => {
    const { listener } = listenerWith();
    await listener.start();
    assert.match(await talk(listener.port, "\u0016\u0003\u0001 hello\r\n\r\n"), /^HTTP\/1\.1 400 /);
    const headers = `GET / HTTP/1.1\r\nX: ${"x".repeat(9_000)}\r\n\r\n`;
    assert.match(await talk(listener.port, headers), /^HTTP\/1\.1 431 /);
  });
});

describe("HttpListener with many clients", () => {
  it("keeps 200 connections and closes the oldest for a new one", async () => {
    const { listener } = listenerWith();
    await listener.start();
    const held: Socket[] = [];
    for (let count = 0; count < 200; count += 1) held.push(await open(listener.port));
    const [oldest, second] = held;
    const gone = new Promise((resolve) => oldest?.resume().on("close", resolve));
    const get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert.match(await talk(listener.port, get), /^HTTP\/1\.1 200 OK/);
    await gone;
    assert.equal(second?.closed, false);
    for (const socket of held) socket.destroy();
  });

  it("closes a connection whose request never ends", async () => {
    const { listener } = listenerWith();
    await listener.start();
    assert.match(
      await talk(listener.port, "GET / HTTP/1.1\r\nHost: a\r\n"),
      /^HTTP\/1\.1 408 Request Timeout/,
    );
  });
});

describe("HttpListener with a port in use", () => {
  it("retries every 5 s, reports it once a minute, and logs when it listens", async () => {
    const { port, free } = await busyPort();
    const { listener, clock, log } = listenerWith({ address: { address: loopback, port } });
    await listener.start();
    const busyLine = {
      level: "error",
      event: "Cannot listen for HTTP",
      keys: {
        server: "test server",
        address: `127.0.0.1:${port}`,
        retry: "5s",
        err: "EADDRINUSE (another process is using this port; to find it, run on the node: ss -ltnp)",
      },
    };
    assert.deepEqual(log.lines, [busyLine]);
    await retryTimes(clock, 11);
    assert.deepEqual(log.lines, [busyLine]);
    await retryTimes(clock, 1);
    assert.deepEqual(log.lines, [busyLine, busyLine]);
    await free();
    await retryTimes(clock, 1);
    assert.equal(log.lines.at(-1)?.event, "HTTP server is listening");
    assert.equal((await fetch(`http://127.0.0.1:${port}/`)).status, 200);
  });

  it("rejects start() if failures are fatal", async () => {
    const { port } = await busyPort();
    const address = { address: loopback, port };
    const { listener, clock } = listenerWith({ address, isFailureFatal: true });
    await assert.rejects(
      listener.start(),
      new ListenError(
        `Cannot listen on 127.0.0.1:${port} for the test server: EADDRINUSE (another process is using this port; to find it, run on the node: ss -ltnp)`,
      ),
    );
    assert.equal(clock.pendingTimers, 0);
  });

  it("stops retrying when it is stopped", async () => {
    const { port } = await busyPort();
    const { listener, clock } = listenerWith({ address: { address: loopback, port } });
    await listener.start();
    await listener.stop();
    assert.equal(clock.pendingTimers, 0);
  });

  it("names an address that this node does not have", async () => {
    const address = { address: "192.0.2.77" as IpAddress, port: 0 };
    const { listener, log } = listenerWith({ address });
    await listener.start();
    assert.equal(log.lines[0]?.keys["err"], "EADDRNOTAVAIL (this node does not have this address)");
  });
});

describe("HttpListener closes when it is stopped", () => {
  it("idle connections immediately", async () => {
    const { listener, clock } = listenerWith();
    await listener.start();
    const socket = await open(listener.port);
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await new Promise((resolve) => socket.once("data", resolve));
    const closed = new Promise((resolve) => socket.on("close", resolve));
    await listener.stop();
    await closed;
    assert.equal(clock.pendingTimers, 0);
    await assert.rejects(fetch(`http://127.0.0.1:${socket.remotePort}/`));
  });

  it("busy connections after a moment", async () => {
    const asked = Promise.withResolvers<void>();
    const { listener, clock } = listenerWith({
      respond: () => {
        asked.resolve();
        return new Promise(() => {});
      },
    });
    await listener.start();
    const socket = await open(listener.port);
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await asked.promise;
    const stopped = listener.stop();
    await clock.advance(300);
    await stopped;
  });
});

/** Fires the retry timer. Binding a port takes one or two turns of the event loop. */
async function retryTimes(clock: FakeClock, times: number): Promise<void> {
  for (let index = 0; index < times; index += 1) {
    await clock.advance(5_000);
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("a request to the server", () => {
  it("contains its method, accepted types, source, and the beginning of its body", async () => {
    const seen: unknown[] = [];
    const { listener } = listenerWith({
      respond: async ({ method, accept, isFromThisNode, readBody }) => {
        seen.push(method, accept, isFromThisNode, (await readBody()).length);
        return ok;
      },
    });
    await listener.start();
    const body = "x".repeat(100_000);
    const response = await fetch(`http://127.0.0.1:${listener.port}/`, {
      method: "PUT",
      body,
      headers: { accept: "text/plain", connection: "close" },
    });
    assert.equal(response.status, 200);
    assert.deepEqual(seen, ["PUT", "text/plain", true, 1_024]);
  });
});

describe("an address is loopback", () => {
  const cases: readonly (readonly [text: string, isLoopback: boolean])[] = [
    ["127.0.0.1", true],
    ["127.200.0.1", true],
    ["::1", true],
    ["::ffff:127.0.0.1", true],
    ["::ffff:192.168.10.11", false],
    ["192.168.127.1", false],
    ["fd00::1", false],
    ["::ffff:7f00:1", true],
    ["", false],
  ];
  for (const [text, isLoopback] of cases) {
    it(`${text || "none"}: ${isLoopback}`, () => assert.equal(isLoopbackText(text), isLoopback));
  }
});
