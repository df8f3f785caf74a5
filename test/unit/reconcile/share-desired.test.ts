import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KnownState, type KnownVirtualServer } from "../../../src/reconcile/known-state.ts";
import { shareDesired } from "../../../src/reconcile/share-desired.ts";
import type { RealServer } from "../../../src/state/real-server.ts";
import { real, virtual } from "../../contract/servers.ts";

const key = "TCP 10.96.0.10:80";
const virtualServer = virtual();
const [first, second, third] = [real("10.244.1.5"), real("10.244.1.6"), real("10.244.1.7")];

/** What is known after sharing, and what is planned. */
function shared(known: KnownVirtualServer, realServers: readonly RealServer[]) {
  const planned = { virtualServer, realServers, addresses: [] };
  const state = new KnownState();
  state.virtualServers.set(key, known);
  shareDesired(state, { virtualServer: () => planned }, [key, "TCP 10.96.0.11:80"]);
  assert.deepEqual([...state.virtualServers.keys()], [key]);
  return { known: state.virtualServers.get(key), planned };
}

describe("shareDesired", () => {
  it("puts what is planned in the place of a list of the same objects", () => {
    const { known, planned } = shared({ virtualServer, realServers: [first, second] }, [
      first,
      second,
    ]);
    assert.equal(known, planned);
  });

  const others: readonly (readonly [string, KnownVirtualServer])[] = [
    ["one more real server", { virtualServer, realServers: [first, second, third] }],
    ["one less", { virtualServer, realServers: [first] }],
    ["another weight", { virtualServer, realServers: [first, { ...second, weight: 0 }] }],
    [
      "another virtual server",
      { virtualServer: { ...virtualServer }, realServers: [first, second] },
    ],
  ];
  for (const [what, server] of others) {
    it(`leaves what has ${what}`, () => {
      assert.equal(shared(server, [first, second]).known, server);
    });
  }
});
