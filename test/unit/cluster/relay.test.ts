import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Traffic } from "../../cluster/relay.ts";

const program: string = join(import.meta.dirname, "../../cluster/relay.ts");

async function connected(port: number): Promise<Socket> {
  for (;;) {
    const socket = connect({ host: "127.0.0.2", port });
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
  echo.listen({ host: "127.0.0.1", port: 0 });
  await once(echo, "listening");
  const { port } = echo.address() as AddressInfo;
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-"));
  const file = join(folder, "traffic.json");
  const relay = spawn(process.execPath, [program, "127.0.0.2", "127.0.0.1", String(port), file]);
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
