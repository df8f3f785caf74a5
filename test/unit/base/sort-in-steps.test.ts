import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sortInSteps } from "../../../src/base/sort-in-steps.ts";

function sorted(texts: readonly string[]): {
  readonly list: readonly string[];
  readonly steps: number;
} {
  const steps = sortInSteps(texts);
  for (let count = 0; ; count += 1) {
    const step = steps.next();
    if (step.done === true) return { list: step.value, steps: count };
  }
}

describe("sorting in steps", () => {
  for (const length of [0, 1, 2, 999, 1_000, 1_001, 5_432]) {
    it(`yields the same as sort() for ${length} texts`, () => {
      const texts = Array.from({ length }, (_, index) => `svc-${(index * 7_919) % 5_003}`);
      assert.deepEqual(sorted(texts).list, texts.toSorted());
    });
  }

  it("lets other work run between the steps", () => {
    const texts = Array.from({ length: 5_000 }, (_, index) => String(index));
    assert.ok(sorted(texts).steps > 10);
  });
});
