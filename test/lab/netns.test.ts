import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { describe, it } from "node:test";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
  withNetworkNamespace,
} from "../support/netns/network-namespace.ts";

const addVirtualServer = "ipvsadm -A -t 10.96.0.1:443 -s rr";

describe("a network namespace in this process", () => {
  it("contains the processes that are started in it", async () => {
    const inside = await withNetworkNamespace("own", [addVirtualServer], () =>
      shell("ipvsadm -Sn"),
    );
    assert.match(inside, /10\.96\.0\.1:443/);
    assert.equal(shell("ipvsadm -Sn"), "");
  });

  it("has its own /proc/sys/net", async () => {
    const path = "/proc/sys/net/ipv4/ip_forward";
    await withNetworkNamespace("own", ["echo 1 > /proc/sys/net/ipv4/ip_forward"], () => {
      assert.equal(readFileSync(path, "utf8"), "1\n");
    });
    assert.equal(readFileSync(path, "utf8"), "0\n");
  });

  it("owns the sockets that were opened in it, even after the process has left it", async () => {
    createNetworkNamespace("own");
    enterNetworkNamespace("own");
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(7777, "127.0.0.1", resolve));
    leaveNetworkNamespace();
    assert.match(shell("ip netns exec own ss -Hltn"), /127\.0\.0\.1:7777/);
    assert.doesNotMatch(shell("ss -Hltn"), /7777/);
    await new Promise((resolve) => server.close(resolve));
    removeNetworkNamespace("own");
  });

  it("is removed if the test body fails", async () => {
    const failure = withNetworkNamespace("own", [], () => Promise.reject(new Error("as planned")));
    await assert.rejects(failure, /as planned/);
    assert.equal(shell("ip netns list"), "");
  });

  it("can be used by ip netns", () => {
    createNetworkNamespace("own");
    assert.match(shell("ip netns exec own ip -o link show up"), /^1: lo: /);
    assert.match(shell("ip netns list"), /^own\b/);
    shell("ip netns add other; ip netns delete own");
    removeNetworkNamespace("other");
    assert.equal(shell("ip netns list"), "");
  });

  it("is not created if its setup fails, and the process returns to its own namespace", async () => {
    await withNetworkNamespace("outer", ["ip link add there type dummy"], () => {
      assert.throws(() => createNetworkNamespace("own", ["echo why >&2; false"]), /why/);
      assert.match(shell("ip netns list"), /^outer\b[^\n]*\n$/);
      assert.match(shell("ip -o link"), / there: /);
    });
  });

  it("reports which namespace it cannot enter, and why", () => {
    assert.throws(() => enterNetworkNamespace("absent"), /\/run\/netns\/absent: no such file/);
  });
});
