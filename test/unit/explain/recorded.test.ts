import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type RecordedNode, readRecorded, recordedText } from "../../../src/explain/recorded.ts";

const node = {
  facts: { mode: "ipvs" },
  states: new Map([["IPv4", { bound: new Set(["10.96.0.10"]), bytes: Uint8Array.of(1, 255) }]]),
} as unknown as RecordedNode;

describe("a recorded node", () => {
  it("is read as it was written, with maps, sets and bytes", () => {
    const text = recordedText(node);
    assert.equal(typeof JSON.parse(text), "object");
    assert.deepEqual(readRecorded(text), node);
  });

  it("is rejected if its text was changed", () => {
    const text = recordedText(node);
    const changed = [
      text.replace("10.96.0.10", "10.96.0.11"),
      text.replace('"bound"', '"bond"'),
      text.slice(0, -2),
      text.slice(text.indexOf('"node":') + 7, -2),
      "{}\n",
      "",
    ];
    for (const one of changed)
      assert.throws(() => readRecorded(one), /^Error: node-state\.json was changed after/, one);
  });
});
