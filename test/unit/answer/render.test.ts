import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type Block,
  type Column,
  facts,
  linesOf,
  rendered,
  section,
  table,
} from "../../../src/answer/render.ts";

interface Row {
  readonly name: string;
  readonly count: number;
  readonly rule?: string;
}

const columns: readonly Column<Row>[] = [
  { title: "NAME", cell: ({ name }) => name, color: ({ count }) => (count > 9 ? 31 : 32) },
  { title: "COUNT", cell: ({ count }) => count, drop: 1 },
  { title: "RULE", cell: ({ rule }) => rule },
];
const rows: readonly Row[] = [
  { name: "first", count: 7, rule: "-m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT" },
  { name: "second", count: 12 },
];

describe("a table", () => {
  it("is aligned, with numbers right-aligned and a dash for missing values", () => {
    assert.deepEqual(linesOf([table(columns, rows)], {}), [
      "NAME    COUNT  RULE",
      "first       7  -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT",
      "second     12  -",
    ]);
  });

  it("wraps its last column, then drops columns and names them", () => {
    assert.deepEqual(linesOf([table(columns, rows)], { width: 40 }), [
      "NAME    COUNT  RULE",
      "first       7  -m set --match-set",
      "               KUBE-CLUSTER-IP dst,dst",
      "               -j ACCEPT",
      "second     12  -",
    ]);
    assert.deepEqual(linesOf([table(columns, rows)], { width: 30 }), [
      "NAME    RULE",
      "first   -m set --match-set",
      "        KUBE-CLUSTER-IP",
      "        dst,dst -j ACCEPT",
      "second  -",
      "(not shown: COUNT; -o wide",
      "shows all columns)",
    ]);
  });

  it("has one line for each cell if the columns that cannot be dropped do not fit", () => {
    const wide: readonly Column<Row>[] = [{ title: "NAMESPACE", cell: () => "shop" }, ...columns];
    const long = [{ name: "ingress-nginx-controller-admission", count: 3, rule: "DROP" }, ...rows];
    assert.deepEqual(linesOf([table(wide, long.slice(0, 2))], { width: 36 }), [
      ...["NAMESPACE: shop", "NAME: ingress-nginx-controller-admis", "      sion"],
      ...["COUNT: 3", "RULE: DROP", ""],
      ...["NAMESPACE: shop", "NAME: first", "COUNT: 7"],
      ...["RULE: -m set --match-set", "      KUBE-CLUSTER-IP dst,dst -j", "      ACCEPT"],
    ]);
  });

  it("colors its first column", () => {
    const [, first, second] = linesOf([table(columns, rows)], { hasColor: true });
    assert.ok(first?.startsWith("\u001b[32mfirst \u001b[0m  "), first);
    assert.ok(second?.startsWith("\u001b[31msecond\u001b[0m  "), second);
  });

  it("wraps advice like its last column", () => {
    const advice = (): readonly string[] => ["remedy: run modprobe ip_vs"];
    assert.deepEqual(linesOf([table(columns, rows.slice(1), { advice })], { width: 36 }), [
      "NAME    COUNT  RULE",
      "second     12  -",
      `${" ".repeat(15)}remedy: run modprobe`,
      `${" ".repeat(15)}ip_vs`,
    ]);
  });

  it("has advice under the last column, and details below separate titles", () => {
    const advice = ({ count }: Row): readonly string[] => (count > 9 ? ["too many"] : []);
    assert.equal(
      linesOf([table(columns, rows, { advice })], {}).at(-1),
      `${" ".repeat(15)}too many`,
    );
    const details = (): readonly Block[] => ["below"];
    const names = linesOf([table(columns.slice(0, 1), rows, { details })], {});
    assert.deepEqual(names, ["NAME", "first", "below", "", "NAME", "second", "below"]);
  });
});

describe("blocks", () => {
  it("show ten details of a finding, and no control characters", () => {
    const details = Array.from({ length: 12 }, (_, index) => `detail ${index}`);
    const lines = linesOf(
      [
        facts([
          ["Long title", "a\u{7}"],
          ["Short", "b", details],
        ]),
      ],
      {},
    );
    assert.deepEqual(lines.slice(0, 3), ["Long title  a\\u0007", "Short       b", "  detail 0"]);
    assert.deepEqual([lines.length, lines.at(-1)], [13, "  and 2 more (-o json)"]);
  });

  it("are wrapped to the width and keep their indentation", () => {
    const blocks = [
      "  planned: packets are balanced",
      facts([["Title", "one two three four five", ["a detail of this fact that is long"]]]),
      section("Title", "a line that does not fit here"),
    ];
    assert.deepEqual(linesOf(blocks, { width: 28 }), [
      ...["  planned: packets are", "  balanced"],
      ...["Title  one two three four", "       five"],
      ...["  a detail of this fact that", "  is long"],
      ...["", "Title", "  a line that does not fit", "  here"],
    ]);
  });

  it("are never wider than the form", () => {
    const word = "ingress-nginx/ingress-nginx-controller-admission";
    const advice = (): readonly string[] => [`remedy: see ${word}`];
    const details = (): readonly Block[] => [`  ${word}`];
    const all = [{ name: word, count: 1_000_000, rule: word.repeat(3) }];
    for (let width = 24; width < 120; width += 1) {
      const blocks = [
        word.repeat(2),
        table(columns, [...all, ...rows], { advice }),
        table(columns, all, { details }),
        facts([[word, word.repeat(2), [word]]]),
        section(word, word, table(columns, rows)),
      ];
      const widest = Math.max(...linesOf(blocks, { width }).map(({ length }) => length));
      assert.ok(widest <= width, `${widest} of ${width}`);
    }
  });

  it("are indented in a section, which is absent if it is empty", () => {
    assert.deepEqual(linesOf([section("Title", "one", "two")], {}), [
      "",
      "Title",
      "  one",
      "  two",
    ]);
    assert.deepEqual(linesOf([section("Title")], {}), []);
  });
});

describe("an answer", () => {
  const view = {
    blocks: (_: object, isWide: boolean): readonly Block[] => [
      `wide: ${isWide}`,
      ({ width }) => [`width: ${width}`],
    ],
    names: () => ["a", "b"],
  };

  it("is printed in each format, with unlimited width for -o wide", () => {
    const printed = (format: string): string =>
      rendered({ kind: "X" }, view, format, { width: 40 });
    assert.equal(printed("text"), "wide: false\nwidth: 40\n");
    assert.equal(printed("wide"), "wide: true\nwidth: undefined\n");
    assert.equal(printed("json"), '{\n  "kind": "X"\n}\n');
    assert.equal(printed("yaml"), "kind: X\n");
    assert.equal(printed("name"), "a\nb\n");
  });
});
