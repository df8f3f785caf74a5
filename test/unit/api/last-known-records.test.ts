import assert from "node:assert/strict";
import { it } from "node:test";
import { LastKnownRecords } from "../../../src/api/last-known-records.ts";

it("reports each difference once, with the record reported before", () => {
  const told: (readonly [unknown, unknown])[] = [];
  const records = new LastKnownRecords<{ readonly a: number }>((...pair) => told.push(pair));
  const [one, alsoOne, two] = [{ a: 1 }, { a: 1 }, { a: 2 }];
  records.put("x", undefined);
  records.put("x", one);
  records.put("x", alsoOne);
  records.put("x", two);
  records.put("x", undefined);
  records.put("x", undefined);
  assert.deepEqual(told, [
    [undefined, one],
    [one, two],
    [two, undefined],
  ]);
  assert.equal(told[1]?.[0], one);
  assert.deepEqual(records.names(), []);
});

it("distinguishes records by the entries of their Maps", () => {
  const told: unknown[] = [];
  const records = new LastKnownRecords<ReadonlyMap<string, number>>((_, record) =>
    told.push(record),
  );
  const maps = [1, 1, 2].map((value) => new Map([["a", value]]));
  for (const map of maps) records.put("x", map);
  assert.deepEqual(told, [maps[0], maps[2]]);
});
