/** docs/differences.md names settings, files and tests: they are there. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { allFields } from "../../../src/config/fields.ts";

const path = join(import.meta.dirname, "../../../docs/differences.md");
const lines = readFileSync(path, "utf8").split("\n");
const rows = lines
  .filter((line) => line.startsWith("| ") && !line.startsWith("|---"))
  .map((line) => line.slice(2, -2).split(" | "))
  .filter((cells) => cells.at(-1) !== "test");

interface NamedTest {
  readonly file: string;
  readonly title: string;
}

/** `[drains](../test/lab/drains.test.ts) «is cut at the deadline»` */
function testsOf(cell: string): readonly NamedTest[] {
  const found = cell.matchAll(/\]\((\.\.\/test\/[^)]+)\) «([^»]+)»/g);
  return [...found].map(([, file = "", title = ""]) => ({ file, title }));
}

/** Titles of cases, suites and tables of cases; what stands in for a name is left out. */
function titlesIn(file: string): readonly string[] {
  const text = readFileSync(join(dirname(path), file), "utf8");
  const strings = text.matchAll(/(?:\b(?:it|describe)\(\s*|\b(?:name|title): )(["`])(.*?)\1/g);
  return [...strings].map(([, , title = ""]) => title);
}

describe("the table of differences", () => {
  it("has rows, each with all its cells", () => {
    assert.ok(rows.length > 40, `${rows.length} rows`);
    for (const cells of rows) {
      assert.ok(cells.length === 5 || cells.length === 2, cells[0]);
      assert.ok(
        cells.every((cell) => cell.trim() !== ""),
        cells[0],
      );
    }
  });

  it("says of each how to get the old behaviour: by a setting, or why there is no way", () => {
    for (const cells of rows.filter(({ length }) => length === 5)) {
      assert.match(cells[3] ?? "", /`kubeIpvs\.|^No way: /, cells[0]);
    }
  });

  it("names settings that exist", () => {
    const known = new Set<string>(allFields.map((field) => field.path));
    for (const [, setting = ""] of lines.join("\n").matchAll(/`(kubeIpvs\.\w+)/g)) {
      assert.ok(known.has(setting), setting);
    }
  });

  it("names a test for each row that exists under this title", () => {
    for (const cells of rows) {
      const tests = testsOf(cells.at(-1) ?? "");
      assert.ok(tests.length > 0, `no test: ${cells[0]}`);
      for (const { file, title } of tests) {
        assert.ok(
          titlesIn(file).some((known) => known.includes(title)),
          `${file} has no test «${title}»`,
        );
      }
    }
  });

  it("refers to documents that exist", () => {
    for (const [, target = ""] of lines.join("\n").matchAll(/\]\(([\w./-]+)\)/g)) {
      assert.ok(existsSync(join(dirname(path), target)), target);
    }
  });
});
