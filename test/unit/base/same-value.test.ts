import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { sameValue } from "../../../src/base/same-value.ts";
import fc from "../../support/fast-check.ts";

describe("sameValue", () => {
  const different: readonly (readonly [unknown, unknown])[] = [
    [1, "1"],
    [null, undefined],
    [{}, []],
    [{}, null],
    [[1], [1, 2]],
    [{ a: undefined }, {}],
    [{ a: undefined }, { b: undefined }],
    [{ a: { b: [1, { c: "x" }] } }, { a: { b: [1, { c: "y" }] } }],
    [Object.create({ a: 1 }), { a: 1 }],
  ];
  for (const [left, right] of different) {
    it(`distinguishes ${JSON.stringify(left)} from ${JSON.stringify(right)}`, () => {
      assert.equal(sameValue(left, right), false);
      assert.equal(sameValue(right, left), false);
      assert.equal(sameValue(left, structuredClone(left)), true);
    });
  }

  it("agrees with Node.js about plain values", () => {
    const value = fc.jsonValue({ maxDepth: 3 });
    fc.assert(
      fc.property(value, value, (left, right) => {
        assert.equal(sameValue(left, structuredClone(left)), true);
        assert.equal(sameValue(left, right), isDeepStrictEqual(left, right));
      }),
    );
  });
});
