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

describe("explain of random packets", () => {
  it(`agrees with ${tupleCount} real packets`, async (test) => {
    const results = await runScenes({ firstSeed, tupleCount });
    const of = (kind: Result["kind"]) =>
      results.filter((one) => one.kind === kind).map(({ text }) => text);
    const [right, may, wrong] = [of("right"), of("may"), of("wrong")];
    test.diagnostic(
      `seeds from ${firstSeed}: ${results.length} packets, ${right.length} right, ${may.length} may, ${wrong.length} wrong`,
    );
    assert.deepEqual(wrong, []);
    assert.ok(may.length <= mostMay * results.length, may.join("\n"));
  });
});
