import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { dataText, documentText, matrixText } from "../../packet-paths/document.ts";
import { columnName, type Path, type SectionResult, transports } from "../../packet-paths/path.ts";
import { allSections } from "../../packet-paths/sections.ts";

const path: Path = {
  labels: ["cluster IP", "pod"],
  from: "pod",
  target: { kind: "service", service: "cluster", frontend: "cluster IP" },
  expected: "local←pod",
};

/** A section with one row that has these outcomes, in column order. */
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

describe("dataText", () => {
  it("has one line for an outcome that is the same in every column", () => {
    assert.deepEqual(dataText([resultWith(Array(4).fill("local←pod"))]).split("\n"), [
      "section\tpath\tover\toutcome",
      "A title\taddress: cluster IP; from: pod\tall\tlocal←pod",
      "",
    ]);
  });

  it("has a line for each outcome if columns differ", () => {
    const data = dataText([resultWith(["refused", "EPERM", "refused", "EPERM"])]);
    assert.deepEqual(data.split("\n").slice(1, -1), [
      "A title\taddress: cluster IP; from: pod\tTCP IPv4, TCP IPv6\trefused",
      "A title\taddress: cluster IP; from: pod\tUDP IPv4, UDP IPv6\tEPERM",
    ]);
  });
});

describe("documentText", () => {
  it("is docs/reports/packet-paths.md; `make packet-paths` writes it", () => {
    const path = join(import.meta.dirname, "../../../docs/reports/packet-paths.md");
    assert.equal(documentText(allSections), readFileSync(path, "utf8"));
  });

  it("wraps long lines, and indents those of a list item", () => {
    const text = `- ${"word ".repeat(60).trim()}`;
    const document = documentText([resultWith([], text).section]);
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
