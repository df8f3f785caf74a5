/**
 * Tests that each guide fits on three screens and that all guides take at most half an hour, so that readers read them
 * to the end. Reports and references may be longer.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readGuides } from "../../support/documents/guides.ts";

const readme = readFileSync(join(import.meta.dirname, "../../../README.md"), "utf8");

const screenLines = 45;
const screenColumns = 100;
const mostScreens = 3;
const mostWords = 9_000;
const mostReadmeWords = 900;
const mostReportWords = 12_000;

/** Number of lines on a screen. Long lines wrap. */
function linesOf(text: string): number {
  const lengths = text
    .trimEnd()
    .split("\n")
    .map((line) => Math.max(1, line.length));
  return lengths.reduce((sum, length) => sum + Math.ceil(length / screenColumns), 0);
}

const wordsOf = (text: string): number => text.split(/\s+/).filter((word) => word !== "").length;

describe("a guide", () => {
  for (const { path, text } of readGuides()) {
    it(`has at most ${mostScreens} screens: docs/${path}`, () => {
      const lines = linesOf(text);
      assert.ok(lines <= mostScreens * screenLines, `${lines} lines of ${screenColumns} columns`);
    });
  }
});

describe("the guides", () => {
  it("are the pages that the index of documents links", () => {
    const paths = readGuides().map(({ path }) => path);
    for (const path of ["quick-start.md", "kind.md", "migrate/kubeadm.md", "tuning/weights.md"])
      assert.ok(paths.includes(path), path);
  });

  it(`have fewer than ${mostWords} words in total`, () => {
    const words = readGuides().reduce((sum, { text }) => sum + wordsOf(text), 0);
    assert.ok(words < mostWords, `${words} words`);
  });
});

describe("the reports", () => {
  it(`have fewer than ${mostReportWords} words in total, because result tables are data files`, () => {
    const reports = join(import.meta.dirname, "../../../docs/reports");
    const texts = globSync("*.md", { cwd: reports }).map((path) =>
      readFileSync(join(reports, path), "utf8"),
    );
    const words = texts.reduce((sum, text) => sum + wordsOf(text), 0);
    assert.ok(words < mostReportWords, `${words} words`);
  });
});

describe("the README", () => {
  it(`has fewer than ${mostReadmeWords} words`, () => {
    const words = wordsOf(readme);
    assert.ok(words < mostReadmeWords, `${words} words`);
  });
});
