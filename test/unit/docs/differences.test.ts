/** Tests that the settings, files and tests named in docs/differences.md exist. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { allFields } from "../../../src/config/fields.ts";
import { isThere, rowsOf, testsOf } from "../../support/documents/named-tests.ts";

const path = join(import.meta.dirname, "../../../docs/differences.md");
const lines = readFileSync(path, "utf8").split("\n");
const rows = rowsOf(lines);

describe("the table of differences", () => {
  it("has rows with all cells", () => {
    assert.ok(rows.length > 40, `${rows.length} rows`);
    for (const cells of rows) {
      assert.ok([5, 4, 2].includes(cells.length), cells[0]);
      assert.ok(
        cells.every((cell) => cell.trim() !== ""),
        cells[0],
      );
    }
  });

  it("has at most two sentences in each cell", () => {
    for (const cell of rows.flat()) {
      const sentences = cell.split(/(?<=[.?!]\)?) +(?=[A-Z`])/);
      assert.ok(sentences.length <= 2, cell);
    }
  });

  it("names in each row a setting that restores the old behavior, or why none exists", () => {
    for (const cells of rows.filter(({ length }) => length === 5)) {
      assert.match(
        cells[3] ?? "",
        /`(?:kubeIpvs\.|--)|^Not configurable(?:: | \(bug fix\))/,
        cells[0],
      );
    }
  });

  it("contains all 21 complaints, each marked as solved", () => {
    const complaints = rows.filter(({ length }) => length === 4);
    for (const [index, cells] of complaints.entries()) {
      assert.ok(cells[0]?.trim().startsWith(`${index + 1}. `), cells[0]);
      assert.match(cells[1]?.trim() ?? "", /^solved/, cells[0]);
    }
    assert.equal(complaints.length, 21);
  });

  it("names settings that exist", () => {
    const known = new Set<string>(allFields.map((field) => field.path));
    for (const [, setting = ""] of lines.join("\n").matchAll(/`(kubeIpvs\.\w+)/g)) {
      assert.ok(known.has(setting), setting);
    }
  });

  it("names an existing test title in each row", () => {
    for (const cells of rows) {
      const tests = testsOf(cells.at(-1) ?? "");
      assert.ok(tests.length > 0, `no test: ${cells[0]}`);
      for (const test of tests) {
        assert.ok(isThere(path, test), `${test.file} has no test "${test.title}"`);
      }
    }
  });

  it("refers to documents that exist", () => {
    for (const [, target = ""] of lines.join("\n").matchAll(/\]\(([\w./-]+)\)/g)) {
      assert.ok(existsSync(join(dirname(path), target)), target);
    }
  });
});
