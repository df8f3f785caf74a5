/**
 * Compares `kube-ipvs explain`'s answers about random packets with what happens to these packets. TEST_TUPLES sets
 * another number of packets, and TEST_FIRST_SEED is the first scene's seed.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "../../src/base/clock.ts";
import { IpSetsClient } from "../../src/kernel/ipset/client.ts";
import { nativeSocket } from "../../src/netlink/native-socket.ts";
import { foreignSets } from "../explained-packets/foreign-rules.ts";
import { runScenes } from "../explained-packets/run-scenes.ts";
import { shell, withNetworkNamespace } from "../support/netns/network-namespace.ts";
import { unlessNftables } from "../support/rules-writer.ts";
import { countOf, firstSeed } from "../support/seeds.ts";

const tupleCount = Number(process.env["TEST_TUPLES"] ?? countOf({ short: 40, long: 1_000 }));
/** The maximum share of packets whose explanation may be uncertain. */
const mostMay = 0.02;

describe("explain with random packets", () => {
  it("reads the entries of other software's sets as ipset prints them", {
    skip: unlessNftables("this kernel may have no ipset"),
  }, async () => {
    const unread = ["masked hash:ip netmask 24", "macs hash:mac", "lists list:set"];
    const setUp = [foreignSets, ...unread.map((definition) => `ipset create ${definition}`)];
    await withNetworkNamespace("sets", setUp, async () => {
      const ipSets = new IpSetsClient({ shim: nativeSocket, clock: systemClock });
      const present = await ipSets.listSets();
      for (const set of present) {
        const saved = shell(`ipset save ${set.name}`).matchAll(/^add \S+ (\S+( nomatch)?)/gm);
        const entries = await ipSets.listOtherEntries(set);
        const printed = [...saved].map(([, text]) => text).toSorted();
        const isRead = !unread.some((definition) => definition.startsWith(`${set.name} `));
        assert.deepEqual(entries?.toSorted(), isRead ? printed : undefined, set.name);
      }
      assert.ok(present.length > 10, `${present.length} sets`);
      ipSets.close();
    });
  });

  it(`agrees with ${tupleCount} real packets`, async (test) => {
    const results = await runScenes({ firstSeed, tupleCount });
    const of = (kind: string): readonly string[] =>
      results.flatMap((one) => (one.kind === kind ? [one.text] : []));
    const [right, may, wrong] = [of("right"), of("may"), of("wrong")];
    test.diagnostic(
      `seeds from ${firstSeed}: ${results.length} packets, ${right.length} right, ${may.length} may, ${wrong.length} wrong`,
    );
    assert.deepEqual(wrong, []);
    assert.ok(may.length <= mostMay * results.length, may.join("\n"));
  });
});
