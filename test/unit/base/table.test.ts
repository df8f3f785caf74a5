import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Column, tableLines, truncated } from "../../../src/base/table.ts";

interface Row {
  readonly name: string;
  readonly count: number;
}

const columns: readonly Column<Row>[] = [
  { title: "NAME", text: ({ name }) => name },
  { title: "COUNT", text: ({ count }) => String(count), isNumber: true },
];

describe("a table", () => {
  it("is aligned: text to the left, numbers to the right, nothing at the end", () => {
    const rows = [
      { name: "a", count: 1 },
      { name: "longer", count: 1_000_000 },
    ];
    assert.deepEqual(tableLines(columns, rows), [
      "NAME      COUNT",
      "a             1",
      "longer  1000000",
    ]);
  });

  it("is cut off at the terminal's width", () => {
    assert.deepEqual(
      tableLines(columns, [{ name: "abcdefgh", count: 1 }], 9),
      ["NAME     …", "abcdefgh…"].map((line) => truncated(line, 9)),
    );
    assert.equal(truncated("abc", 3), "abc");
    assert.equal(truncated("abcd", 3), "ab…");
    assert.equal(truncated("abcd", undefined), "abcd");
  });

  it("shows an empty cell as -, and no terminal escapes", () => {
    assert.deepEqual(tableLines(columns, [{ name: "", count: 0 }])[1], "-         0");
    assert.deepEqual(
      tableLines(columns, [{ name: "\u001b[2J", count: 0 }])[1],
      "\\u001b[2J      0",
    );
  });

  it("of nothing is its titles", () => assert.deepEqual(tableLines(columns, []), ["NAME  COUNT"]));
});
