import assert from "node:assert/strict";
import { it } from "node:test";
import { suggest } from "../../../src/cli/suggest.ts";

const words = ["plan", "status", "services", "doctor", "completion"];

for (const [written, wanted] of [
  ["stauts", "status"],
  ["Status", "status"],
  ["docter", "doctor"],
  ["service", "services"],
  ["pln", "plan"],
  ["run", undefined],
  ["", undefined],
  ["a".repeat(100_000), undefined],
] as const) {
  it(`${written.slice(0, 20)} means ${wanted}`, () =>
    assert.equal(suggest(written, words), wanted));
}
