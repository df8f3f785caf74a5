/** Tests requests for weights with real servers on loopback addresses. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { afterEach, describe, it } from "node:test";
import { askWeight } from "../../../../src/daemon/weights/ask-weight.ts";
import { ip } from "../../../support/records.ts";

let port = 0;
const servers: Server[] = [];
const sockets = new Set<Socket>();

afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  for (const server of servers.splice(0)) server.close();
});

/** Serves connections with this function, and asks the server for its weight. */
async function ask(
  serve: (socket: Socket, request: string) => void,
  host: "127.0.0.1" | "::1" = "127.0.0.1",
): ReturnType<typeof askWeight> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", (data) => serve(socket, data.toString()));
  }).listen(0, host);
  servers.push(server);
  await once(server, "listening");
  ({ port } = server.address() as { readonly port: number });
  return askWeight({ address: ip(host), port, path: "/weight?a=b" });
}

function answer(body: string, head: string = "HTTP/1.1 200 OK"): (socket: Socket) => void {
  return (socket) =>
    socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

describe("a request for a weight", () => {
  for (const host of ["127.0.0.1", "::1"] as const) {
    it(`is a plain GET request to ${host}`, async () => {
      let first = "";
      const asked = await ask((socket, request) => {
        first = request;
        answer("57\n")(socket);
      }, host);
      assert.deepEqual(asked, { weight: 57 });
      const name = host === "::1" ? "[::1]" : host;
      assert.deepEqual(first.split("\r\n"), [
        "GET /weight?a=b HTTP/1.1",
        `host: ${name}:${port}`,
        ...["accept: text/plain", "connection: close", "", ""],
      ]);
    });
  }

  for (const [text, weight] of [
    ["0", 0],
    ["100", 100],
    [" 007 \r\n", 7],
  ] as const) {
    it(`accepts ${JSON.stringify(text)}`, async () => {
      assert.deepEqual(await ask(answer(text)), { weight });
    });
  }

  for (const text of ["", "101", "1e9", "-1", "NaN", "0x10", "5.5", "5 5", "５", "1".repeat(16)]) {
    it(`does not accept ${JSON.stringify(text)}`, async () => {
      assert.deepEqual(await ask(answer(text)), { problem: "not a number from 0 to 100" });
    });
  }

  it("follows no redirect", async () => {
    const redirect = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/";
    assert.deepEqual(await ask(answer("5", redirect)), { problem: "status 302" });
  });

  it("reads only the beginning of a huge body and of huge headers", async () => {
    let written = 0;
    const pour = (socket: Socket, chunk: string): void => {
      const more = (): void => {
        if (!socket.writable) return;
        written += chunk.length;
        if (socket.write(chunk)) setImmediate(more);
        else socket.once("drain", more);
      };
      more();
    };
    const body = await ask((socket) => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      pour(socket, "1".repeat(10_000));
    });
    assert.deepEqual(body, { problem: "more than 16 bytes" });
    const head = await ask((socket) => {
      socket.write("HTTP/1.1 200 OK\r\n");
      pour(socket, `x: ${"y".repeat(997)}\r\n`);
    });
    assert.deepEqual(head, { problem: "HPE_HEADER_OVERFLOW" });
    assert.ok(written < 50_000_000, `${written} bytes`);
  });

  it("ends at the first informational response", async () => {
    const asked = await ask((socket) => socket.write("HTTP/1.1 103 Early Hints\r\n\r\n"));
    assert.deepEqual(asked, { problem: "status 103" });
  });

  for (const [name, serve] of [
    ["a silent server", () => {}],
    ["an incomplete body", (socket: Socket) => socket.write("HTTP/1.1 200 OK\r\n\r\n5")],
    ["a slow head", (socket: Socket) => socket.write("HTTP/1.1 200 OK\r\nx: ")],
  ] as const) {
    it(`fails within a second with ${name}`, async () => {
      const beganMs = performance.now();
      const asked = await ask(serve);
      assert.match("problem" in asked ? asked.problem : "", /900 ms|incomplete/);
      assert.ok(performance.now() - beganMs < 5_000);
    });
  }

  it("fails if the server does not speak HTTP, closes the connection early or does not exist", async () => {
    assert.deepEqual(await ask((socket) => socket.end("5\n")), {
      problem: "HPE_INVALID_CONSTANT",
    });
    assert.deepEqual(await ask((socket) => socket.destroy()), { problem: "ECONNRESET" });
    for (const server of servers.splice(0)) {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    }
    const asked = await askWeight({ address: ip("127.0.0.1"), port, path: "/" });
    assert.deepEqual(asked, { problem: "ECONNREFUSED" });
  });
});
