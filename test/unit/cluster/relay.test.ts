import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Traffic } from "../../cluster/relay.ts";

const program: string = join(import.meta.dirname, "../../cluster/relay.ts");

/** Listens on all addresses, as the API server does. */
async function listen(server: Server): Promise<number> {
  server.listen();
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listen(server);
  server.close();
  await once(server, "close");
  return port;
}

async function connected(port: number): Promise<Socket> {
  for (;;) {
    const socket = connect({ host: "127.0.0.1", port });
    try {
      await once(socket, "connect");
      return socket;
    } catch {
      await sleep(50);
    }
  }
}

it("The relay counts connections, and bytes in both directions", { timeout: 60_000 }, async () => {
  const echo = createServer((socket) => socket.pipe(socket));
  const targetPort = await listen(echo);
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-"));
  const file = join(folder, "traffic.json");
  const args = ["127.0.0.1", port, targetPort, file].map(String);
  const relay = spawn(process.execPath, [program, ...args]);
  try {
    for (const text of ["12345", "1234567890"]) {
      const socket = await connected(port);
      socket.write(text);
      assert.equal(String((await once(socket, "data"))[0]), text);
      socket.end();
      await once(socket, "close");
    }
    let traffic: Traffic = { connections: 0, bytes: 0 };
    while (traffic.bytes < 30) {
      await sleep(100);
      if (existsSync(file)) traffic = JSON.parse(readFileSync(file, "utf8")) as Traffic;
    }
    assert.deepEqual(traffic, { connections: 2, bytes: 30 });
  } finally {
    relay.kill();
    echo.close();
    rmSync(folder, { recursive: true });
  }
});
