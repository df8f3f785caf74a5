import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LineSplitter } from "../../../../src/api/cluster/line-splitter.ts";
import fc from "../../../support/fast-check.ts";

describe("splitting a stream into lines", () => {
  it("yields the same lines regardless of how the bytes arrive", () => {
    const lines = fc.array(
      fc.string({ unit: "grapheme" }).map((text) => text.replaceAll("\n", "")),
    );
    const sizes = fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1 });
    fc.assert(
      fc.property(lines, sizes, (given, chunkSizes) => {
        const bytes = Buffer.from(given.map((line) => `${line}\n`).join(""));
        const splitter = new LineSplitter(100_000);
        const got: string[] = [];
        for (let start = 0, turn = 0; start < bytes.length; turn += 1) {
          const size = chunkSizes[turn % chunkSizes.length] ?? 1;
          got.push(...splitter.push(bytes.subarray(start, start + size)));
          start += size;
        }
        assert.deepEqual(
          got,
          given.filter((line) => line.trim() !== ""),
        );
        assert.ok(splitter.isEmpty);
      }),
    );
  });

  it("knows whether the last line is complete", () => {
    const splitter = new LineSplitter(100);
    assert.deepEqual([...splitter.push(Buffer.from("a\n\r\nb"))], ["a"]);
    assert.equal(splitter.isEmpty, false);
  });

  it("rejects a line beyond the limit", () => {
    const splitter = new LineSplitter(100);
    assert.throws(() => [...splitter.push(Buffer.alloc(101, "x"))], RangeError);
  });
});
