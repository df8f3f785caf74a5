import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { after, before, describe, it, mock } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type OpenConnection, openConnection } from "../../../src/e2e/pod/open-connection.ts";
import { Holder } from "../../cluster/holder.ts";
import { closeConnections } from "../../cluster/shop.ts";

const sockets: Socket[] = [];
let answers = true;
/** Sends its name and returns each line, as long as `answers` is true. */
const server: Server = createServer((socket) => {
  sockets.push(socket);
  socket.once("data", () => {
    socket.write("backend 127.0.0.1\n");
    socket.on("data", (text) => {
      if (answers) socket.write(text);
    });
  });
});

describe("A held connection", () => {
  let port: number;
  let connection: OpenConnection;
  before(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    ({ port } = server.address() as AddressInfo);
  });
  after(() => server.close());

  it("is open if the backend answers the last line", async () => {
    connection = await openConnection("127.0.0.1", port);
    connection.ping();
    assert.deepEqual(await connection.end(), { name: "backend", pings: 2, ending: "open" });
  });

  it("is broken if the backend stops answering, after ten seconds", async () => {
    connection = await openConnection("127.0.0.1", port);
    connection.ping();
    await once(sockets.at(-1) as Socket, "data");
    await sleep(50);
    answers = false;
    mock.timers.enable({ apis: ["setTimeout"] });
    let isOver = false;
    const ended = connection.end().finally(() => {
      isOver = true;
    });
    mock.timers.tick(9_999);
    await new Promise(setImmediate);
    assert.equal(isOver, false);
    mock.timers.tick(1);
    assert.deepEqual(await ended, { name: "backend", pings: 1, ending: "no answer" });
    mock.timers.reset();
    answers = true;
  });

  it("is broken if the backend closes or resets it", async () => {
    for (const [close, ending] of [
      [(socket: Socket) => socket.end(), "end"],
      [(socket: Socket) => socket.resetAndDestroy(), "ECONNRESET"],
    ] as const) {
      connection = await openConnection("127.0.0.1", port);
      close(sockets.at(-1) as Socket);
      assert.equal(await connection.closed, ending);
      connection.ping();
      assert.deepEqual(await connection.end(), { name: "backend", pings: 0, ending });
    }
  });

  it("is not opened if the port is closed", async () => {
    await assert.rejects(openConnection("127.0.0.1", 1), /Cannot connect to .*:1: ECONNREFUSED/);
  });

  it("is one of many that hold.ts reports", async () => {
    const script = join(import.meta.dirname, "../../cluster/hold.ts");
    const targets = [`127.0.0.1:${port}`, `127.0.0.1:${port}`];
    const argv = [process.execPath, script, ...targets];
    const holder = await Holder.open(argv, 2, AbortSignal.timeout(20_000));
    sockets.at(-1)?.end();
    assert.deepEqual(await closeConnections([holder]), { count: 2, broken: 1 });
  });
});

it("a connection without an answer to its last line counts as broken", async () => {
  const result = (ending: string): string => JSON.stringify({ name: "a", pings: 9, ending });
  const lines = [result("open"), result("no answer")].map((line) => `echo '${line}'`).join("; ");
  const argv = ["sh", "-c", `echo '{}'; echo '{}'; cat > /dev/null; ${lines}`];
  const holder = await Holder.open(argv, 2, AbortSignal.timeout(10_000));
  assert.deepEqual(await closeConnections([holder]), { count: 2, broken: 1 });
});
