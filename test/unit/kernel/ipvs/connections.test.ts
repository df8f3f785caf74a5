import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import {
  findEstablished,
  listConnections,
  parseConnection,
} from "../../../../src/kernel/ipvs/connections.ts";
import { toServerKey } from "../../../../src/state/virtual-server.ts";

const title = "Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData";
const line = "TCP C0A80A01 C350 0A60000A 0050 0AF4010A 1F90 ESTABLISHED     899";

describe("the table of IPVS connections", () => {
  it("is parsed line by line, as the kernel prints it", () => {
    assert.deepEqual(parseConnection(line), {
      client: "192.168.10.1",
      clientPort: 50_000,
      virtualServer: { protocol: "TCP", address: "10.96.0.10", port: 80 },
      realServer: { address: "10.244.1.10", port: 8080 },
      state: "ESTABLISHED",
      expiresInSeconds: 899,
    });
  });

  it("has full IPv6 addresses", () => {
    const full = (start: string, end: string): string =>
      `${start}:0000:0000:0000:0000:0000:0000:${end}`;
    const text = `UDP ${full("fd00", "0001")} 0000 ${full("fd96", "000a")} 0035 ${full("fd24", "0005")} 14E9 UDP 30`;
    const { client, clientPort, virtualServer, realServer } = parseConnection(text) ?? {};
    assert.deepEqual([client, clientPort], ["fd00::1", 0]);
    assert.deepEqual(virtualServer, { protocol: "UDP", address: "fd96::a", port: 53 });
    assert.deepEqual(realServer, { address: "fd24::5", port: 5353 });
  });

  it("contains lines that are not connections of kube-ipvs", () => {
    for (const text of [title, "", "IP C0A80A01", "TCP x y z", "TCP C0A80A01 C350 0A60000A"]) {
      assert.equal(parseConnection(text), undefined);
    }
  });

  it("finds established connections, but not those in SYN_SENT, closed ones, and those of other virtual servers", () => {
    const folder = mkdtempSync(join(tmpdir(), "connections-"));
    const path = join(folder, "table");
    const isEstablished = (text: string, key = toServerKey("TCP 10.96.0.10:80")): boolean => {
      writeFileSync(path, `${title}\n${text}\n`);
      const lines = findEstablished(new Set([key]), path);
      for (;;) {
        const { done, value } = lines.next();
        if (done === true) return value;
      }
    };
    for (const [state, wanted] of [
      ["ESTABLISHED", true],
      ["SYN_RECV", true],
      ["SYN_SENT", false],
      ["TIME_WAIT", false],
      ["NONE", false],
    ] as const) {
      assert.equal(isEstablished(line.replace("ESTABLISHED", state)), wanted, state);
    }
    assert.equal(isEstablished(line, toServerKey("TCP 10.96.0.10:81")), false);
    assert.equal(isEstablished(`${line.replace("ESTABLISHED", "SYN_SENT")}\n${line}`), true);
    rmSync(folder, { recursive: true });
  });

  it("is read in pieces of any size, and is empty without IPVS", () => {
    const folder = mkdtempSync(join(tmpdir(), "connections-"));
    const path = join(folder, "table");
    writeFileSync(path, `${title}\n${`${line}\n`.repeat(3_000)}`);
    assert.equal(listConnections(() => true, path).length, 3_000);
    assert.equal(listConnections(() => false, path).length, 0);
    assert.deepEqual(
      listConnections(() => true, join(folder, "absent")),
      [],
    );
    rmSync(folder, { recursive: true });
  });
});
