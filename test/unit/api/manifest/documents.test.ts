import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type FileContent, readDocuments } from "../../../../src/api/manifest/documents.ts";
import fc from "../../../support/fast-check.ts";

/** `place value` for each value, or `problem line:column`. */
function summary(content: FileContent): readonly string[] {
  if (content.kind === "problem") {
    return [`problem ${content.problem.line}:${content.problem.column}`];
  }
  return content.values.map(({ value, place }) => `${place} ${JSON.stringify(value)}`);
}

const cases: readonly {
  readonly name: string;
  readonly file?: string;
  readonly text: string;
  readonly want: readonly string[];
}[] = [
  { name: "an empty file", text: "", want: [] },
  { name: "only comments", text: "# nothing\n", want: [] },
  { name: "two documents", text: "a: 1\n---\nb: 2\n", want: [':1 {"a":1}', ':3 {"b":2}'] },
  {
    name: "a List with each member's position",
    text: "kind: List\nitems:\n- kind: A\n- kind: B\n  x: 1\n",
    want: [':1 items[0] {"kind":"A"}', ':1 items[1] {"kind":"B","x":1}'],
  },
  {
    name: "a typed list, whose members need no kind",
    text: "kind: ServiceList\nitems:\n- x: 1\n",
    want: [':1 items[0] {"x":1,"kind":"Service"}'],
  },
  {
    name: "a kind that only sounds like a list",
    text: "kind: PriceList\n",
    want: [':1 {"kind":"PriceList"}'],
  },
  {
    name: "merge keys",
    text: "x: &x {a: 1}\ny: {<<: *x}\n",
    want: [':1 {"x":{"a":1},"y":{"a":1}}'],
  },
  { name: "words that YAML 1.1 treats as booleans", text: "a: yes\n", want: [':1 {"a":true}'] },
  { name: "JSON in a YAML file", text: '{"a": 1}', want: [':1 {"a":1}'] },
  { name: "a JSON file", file: "a.json", text: '{"a": 1}', want: [' {"a":1}'] },
  {
    name: "a JSON list",
    file: "a.json",
    text: '{"kind":"List","items":[{"kind":"A"}]}',
    want: [' items[0] {"kind":"A"}'],
  },
  { name: "an unfinished flow list", text: "a: 1\nb: [\n", want: ["problem 3:1"] },
  { name: "a tab as indentation", text: "a:\n\tb: 1\n", want: ["problem 2:1"] },
  { name: "a duplicate key", text: "a: 1\na: 2\n", want: ["problem 2:1"] },
  { name: "an unknown alias", text: "b: 1\n---\na: *x\n", want: ["problem 3:1"] },
  { name: "broken JSON", file: "a.json", text: '{\n "a": 1,\n}', want: ["problem 3:1"] },
  { name: "unfinished JSON", file: "a.json", text: '{\n "a": 1', want: ["problem 2:8"] },
];

describe("reading the documents of a manifest file", () => {
  for (const { name, file = "a.yaml", text, want } of cases) {
    it(name, () => assert.deepEqual(summary(readDocuments(file, text)), want));
  }

  it("rejects documents that grow by aliases", () => {
    const levels = Array.from({ length: 12 }, (_, level) => {
      const before = level === 0 ? "x" : `*a${level - 1}`;
      return `a${level}: &a${level} [${Array(10).fill(before).join(", ")}]`;
    });
    assert.equal(readDocuments("a.yaml", levels.join("\n")).kind, "problem");
  });

  it("rejects nesting beyond the stack", () => {
    assert.equal(readDocuments("a.yaml", "[".repeat(100_000)).kind, "problem");
  });

  it("does not modify prototypes", () => {
    const content = readDocuments("a.yaml", "__proto__:\n  polluted: true\nconstructor: 1\n");
    assert.equal(content.kind, "values");
    assert.equal("polluted" in {}, false);
  });

  it("never throws", () => {
    const yamlish = fc.string({ unit: fc.constantFrom(..."ab:-[]{}&*!|>\"'#\n\t %@,?1~<") });
    fc.assert(
      fc.property(
        fc.oneof(yamlish, fc.string()),
        fc.constantFrom("a.yaml", "a.json"),
        (text, file) => {
          readDocuments(file, text);
        },
      ),
      { numRuns: 500 },
    );
  });
});
