import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ipFamilies } from "../../../src/base/ip.ts";
import { allSetsFor, capacityFor, temporaryNameOf } from "../../../src/plan/sets.ts";

const names = ipFamilies.flatMap(allSetsFor).map(({ name }) => name);

describe("the names of sets", () => {
  it("and of temporary sets are all different, and short enough for the kernel", () => {
    const all = [...names, ...names.map(temporaryNameOf)];
    assert.equal(new Set(all).size, 2 * 36);
    for (const name of all) assert.ok(name.length <= 31, name);
  });
});

describe("the capacity of a set", () => {
  const cases: readonly [entries: number, capacity: number][] = [
    [0, 65_536],
    [65_536, 65_536],
    [65_537, 131_072],
    [131_072, 131_072],
    [131_073, 262_144],
  ];
  for (const [entries, capacity] of cases) {
    it(`of ${entries} entries is ${capacity}`, () => assert.equal(capacityFor(entries), capacity));
  }
});
