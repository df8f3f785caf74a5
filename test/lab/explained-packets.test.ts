/**
 * Compares the answers of `kube-ipvs explain` about random packets with what happens to these packets. TEST_TUPLES is the
 * number of packets, and TEST_FIRST_SEED the seed of the first scene.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Result, runScenes } from "../explained-packets/run-scenes.ts";
import { firstSeed } from "../support/seeds.ts";

const tupleCount = Number(process.env["TEST_TUPLES"] ?? 40);
/** At most this share of packets may be explained with a doubt. */
const mostMay = 0.02;

/** Rules that `explain` cannot evaluate yet, by name. Packets for which they are the only doubt do not count. */
const knownDoubts: Readonly<Record<string, RegExp>> = {
  "the entries of other software's sets are not read": /-m set (?:! )?--match-set cali/,
};

function isKnown({ doubts }: Result): boolean {
  return doubts.every((rule) => Object.values(knownDoubts).some((known) => known.test(rule)));
}

describe("explain of random packets", () => {
  it(`agrees with ${tupleCount} real packets`, async (test) => {
    const results = await runScenes({ firstSeed, tupleCount });
    const of = (kind: string): readonly string[] =>
      results.flatMap((one) =>
        (one.kind === "may" && isKnown(one) ? "known" : one.kind) === kind ? [one.text] : [],
      );
    const [right, may, wrong, known] = [of("right"), of("may"), of("wrong"), of("known")];
    test.diagnostic(
      `seeds from ${firstSeed}: ${results.length} packets, ${right.length} right, ${may.length} may, ${known.length} with a known doubt, ${wrong.length} wrong`,
    );
    assert.deepEqual(wrong, []);
    assert.ok(may.length <= mostMay * results.length, may.join("\n"));
  });
});
