import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, it } from "node:test";
import { listListeningSockets, parseSockets } from "../../../src/kernel/listening-sockets.ts";
import { skippedWithoutIpv6 } from "../../support/ipv6.ts";

/** A line of /proc/net/tcp, without the fields that are not parsed. */
function line(local: string, remote: string, state: string): string {
  return `   0: ${local} ${remote} ${state} 00000000:00000000 00:00000000 00000000  1000        0 1\n`;
}

describe("listening sockets", () => {
  it("are those in state LISTEN, or datagram sockets without a peer", () => {
    const nobody = "00000000:0000";
    const table = [
      line("0100007F:7580", nobody, "0A"),
      line("0100007F:7580", "0100007F:8000", "01"),
      line("0B0AA8C0:0035", nobody, "07"),
      line("00000000000000000000000001000000:7580", `${"0".repeat(32)}:0000`, "0A"),
    ].join("");
    assert.deepEqual(
      parseSockets(table, "TCP").map(({ address, port }) => `${address} ${port}`),
      ["127.0.0.1 30080", "::1 30080"],
    );
    assert.deepEqual(new Set(parseSockets(table, "TCP").map(({ uid }) => uid)), new Set([1_000]));
    assert.deepEqual(
      parseSockets(table, "UDP").map(({ address, port }) => `${address} ${port}`),
      ["192.168.10.11 53"],
    );
  });

  it("are found in this kernel", { skip: skippedWithoutIpv6 }, async (test) => {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const socket = createSocket("udp6");
    await new Promise<void>((resolve) => socket.bind(0, "::1", resolve));
    test.after(() => {
      server.close();
      socket.close();
    });
    const found = listListeningSockets().map((one) => `${one.protocol} ${one.address} ${one.port}`);
    const bound = server.address();
    assert.ok(bound !== null && typeof bound === "object");
    assert.ok(found.includes(`TCP 127.0.0.1 ${bound.port}`));
    assert.ok(found.includes(`UDP ::1 ${socket.address().port}`));
  });
});
