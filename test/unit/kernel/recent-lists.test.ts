import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { listRecentClients, parseRecentClients } from "../../../src/kernel/recent-lists.ts";

describe("clients that the match `recent` keeps", () => {
  it("are the sources in the list, of either family", () => {
    const text =
      "src=192.168.10.1 ttl: 64 last_seen: 4294915327 oldest_pkt: 1 4294915327\n" +
      "src=fd00:0010:0000:0000:0000:0000:0000:0001 ttl: 63 last_seen: 4294915400 oldest_pkt: 2 1, 2\n";
    assert.deepEqual(parseRecentClients(text), ["192.168.10.1", "fd00:10::1"]);
    assert.deepEqual(parseRecentClients(""), []);
  });

  it("are empty if the list does not exist", () => {
    assert.deepEqual(listRecentClients("KUBE-SEP-NONE"), []);
  });
});
