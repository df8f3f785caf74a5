import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { documentText, matrixText } from "../../packet-paths/document.ts";
import { columnName, type Path, type SectionResult, transports } from "../../packet-paths/path.ts";

const path: Path = {
  labels: ["cluster IP", "pod"],
  from: "pod",
  target: { kind: "service", service: "cluster", frontend: "cluster IP" },
  expected: "local←pod",
};

/** One row with these outcomes, in the order of the columns. */
function resultWith(outcomes: readonly string[], text = "Why."): SectionResult {
  const names = transports.map(columnName);
  return {
    section: {
      title: "A title",
      text: [text],
      headings: ["address", "from"],
      columns: transports,
      paths: [path],
    },
    rows: [{ path, outcomes: new Map(names.map((name, index) => [name, outcomes[index] ?? ""])) }],
  };
}

function rowsOf(document: string): readonly string[] {
  return document.split("\n").filter((line) => line.startsWith("| cluster IP"));
}

describe("documentText", () => {
  it("says once what holds in every column", () => {
    const document = documentText([resultWith(Array(4).fill("local←pod"))]);
    assert.deepEqual(rowsOf(document), ["| cluster IP | pod | all | `local←pod` |"]);
  });

  it("has a line for each outcome where columns differ", () => {
    const document = documentText([resultWith(["refused", "EPERM", "refused", "EPERM"])]);
    assert.deepEqual(rowsOf(document), [
      "| cluster IP | pod | TCP IPv4, TCP IPv6 | `refused` |",
      "| cluster IP | pod | UDP IPv4, UDP IPv6 | `EPERM` |",
    ]);
  });

  it("breaks long lines, and indents those of a list item", () => {
    const text = `- ${"word ".repeat(60).trim()}`;
    const document = documentText([resultWith([], text)]);
    const lines = document.split("\n").filter((line) => line.includes("word word"));
    assert.ok(lines.length > 2);
    for (const [index, line] of lines.entries()) {
      assert.ok(line.length <= 110, line);
      assert.ok(line.startsWith(index === 0 ? "- word" : "  word"), line);
    }
  });
});

describe("matrixText", () => {
  it("aligns its columns", () => {
    const text = matrixText([resultWith(["local←pod", "silence", "refused", "refused"])]);
    const [title, heads, row] = text.split("\n");
    assert.equal(title, "A title");
    assert.equal(heads?.indexOf("UDP IPv4"), row?.indexOf("silence"));
  });
});
