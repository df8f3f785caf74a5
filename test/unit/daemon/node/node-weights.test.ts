import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { NodeRecord } from "../../../../src/api/objects.ts";
import { AllNodeWeights } from "../../../../src/daemon/node/node-weights.ts";

function nodeOf(weight?: number): NodeRecord {
  const record = { name: "node-1", addresses: [], podCidrs: [], isEligible: true };
  return weight === undefined ? record : { ...record, weight };
}

describe("the weights of all Nodes", () => {
  const listed = new Map([
    ["node-1", 5],
    ["node-2", 3],
  ]);

  it("are those listed where nothing newer is known", () => {
    const weights = new AllNodeWeights();
    assert.equal(weights.of(listed, undefined), listed);
    assert.equal(weights.of(listed, nodeOf(5)), listed);
  });

  it("have what this node's own object says, also where that has no weight any more", () => {
    const weights = new AllNodeWeights();
    const changed = weights.of(listed, nodeOf(7));
    assert.deepEqual([...changed].toSorted(), [
      ["node-1", 7],
      ["node-2", 3],
    ]);
    assert.equal(weights.of(listed, nodeOf(7)), changed, "the same while nothing differs");
    const removed = weights.of(listed, nodeOf());
    assert.deepEqual([...removed], [["node-2", 3]]);
    assert.equal(weights.of(listed, nodeOf()), removed, "the same while nothing differs");
    assert.equal(weights.of(listed, nodeOf(5)), listed);
  });
});
