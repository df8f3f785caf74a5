import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseYamlDocuments } from "../../../src/base/yaml.ts";

const values = (text: string): unknown[] => parseYamlDocuments(text).map(({ value }) => value);

describe("parseYamlDocuments reads", () => {
  const cases = [
    { name: "nothing from an empty text", text: "", want: [] },
    { name: "nothing from comments and empty documents", text: "# a\n---\n---\n", want: [] },
    { name: "several documents", text: "a: 1\n---\nb: 2\n", want: [{ a: 1 }, { b: 2 }] },
    { name: "JSON", text: '{"a": [true, null, "x"]}', want: [{ a: [true, null, "x"] }] },
    { name: "the booleans of YAML 1.1", text: "[yes, Off, 'no']", want: [[true, false, "no"]] },
    { name: "dates as text", text: "a: 2024-01-01", want: [{ a: "2024-01-01" }] },
    {
      name: "merge keys",
      text: "a: &a {x: 1}\nb:\n  <<: *a\n  y: 2",
      want: [{ a: { x: 1 }, b: { x: 1, y: 2 } }],
    },
    { name: "the last of two equal keys", text: "a: 1\na: 2", want: [{ a: 2 }] },
  ];
  for (const { name, text, want } of cases) {
    it(name, () => assert.deepEqual(values(text), want));
  }

  it("a prototype key as an ordinary one", () => {
    const [value] = values("__proto__: {polluted: true}");
    assert.deepEqual(Object.keys(value as object), ["__proto__"]);
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
  });
});

describe("parseYamlDocuments reports", () => {
  const nested = "a: &a [1,1]\nb: &b [*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c]";
  const cases = [
    {
      name: "the position of a broken line",
      text: "a: 1\nb: [1\nc: 2\n",
      line: 3,
      reason: /Flow seq/,
    },
    { name: "a tab", text: "a:\n\t- b\n", line: 2, reason: /Tabs/ },
    { name: "an unknown alias", text: "a: *b", line: 1, reason: /alias/i },
    { name: "exponential aliases", text: nested, line: 1, reason: /alias/i },
    {
      name: "too many aliases",
      text: `a: &a 1\nb: [${"*a,".repeat(101)}]`,
      line: 1,
      reason: /100/,
    },
    { name: "bottomless nesting", text: "[".repeat(10_000), line: 1, reason: /stack|Flow/ },
  ];
  for (const { name, text, line, reason } of cases) {
    it(name, () => {
      const [document] = parseYamlDocuments(text);
      assert.equal(document?.value, undefined);
      assert.equal(document?.problems[0]?.kind, "syntax");
      assert.match(document?.problems.map((problem) => problem.reason).join("\n") ?? "", reason);
      assert.ok(document?.problems.some((problem) => problem.line === line));
      assert.ok((document?.problems.length ?? 99) <= 10);
    });
  }

  it("two equal keys, and still reads the document", () => {
    const [document] = parseYamlDocuments("a: 1\nb: 1\na: 2");
    assert.deepEqual(document?.problems, [
      { line: 3, column: 1, kind: "duplicate-key", reason: "Map keys must be unique" },
    ]);
  });

  it("a broken document with its line, and still reads the next one", () => {
    const documents = parseYamlDocuments("a: [\n---\nb: 2\n");
    assert.deepEqual(
      documents.map(({ line, value }) => ({ line, value })),
      [
        { line: 1, value: undefined },
        { line: 3, value: { b: 2 } },
      ],
    );
  });
});
