import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { everyOutcome } from "../../../../src/explain/packet/every-outcome.ts";

describe("every outcome of lots", () => {
  it("is one where nobody asks", () => {
    assert.deepEqual(
      everyOutcome(() => "sure"),
      ["sure"],
    );
  });

  it("is each rule of a chain once, the last one where no lot matched", () => {
    const chosen = everyOutcome((lot) => (lot() ? "first" : lot() ? "second" : "last"));
    assert.deepEqual(chosen, ["first", "second", "last"]);
  });

  it("is every sequence where each lot is asked for", () => {
    const drawn = everyOutcome((lot) => `${lot()} ${lot()}`);
    assert.deepEqual(drawn, ["true true", "true false", "false true", "false false"]);
  });
});
