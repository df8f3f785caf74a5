/** docs/security.md: each claim in a table with a column "test" names one that exists under this title. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isThere, rowsOf, testsOf } from "../../support/documents/named-tests.ts";

const path = join(import.meta.dirname, "../../../docs/security.md");
const text = readFileSync(path, "utf8");

/** Tables of claims come after this heading. */
const claims = rowsOf(text.slice(text.indexOf("## What someone who may write")).split("\n"));

describe("the security model", () => {
  it("has claims", () => assert.ok(claims.length > 25, `${claims.length} rows`));

  for (const cells of claims) {
    it(`names a test: ${cells[0]}`, () => {
      assert.equal(cells.length, 3);
      const last = cells.at(-1) ?? "";
      const tests = testsOf(last);
      assert.ok(tests.length > 0 || /^none: /.test(last), "neither a test nor why there is none");
      for (const test of tests) {
        assert.ok(isThere(path, test), `${test.file} has no test "${test.title}"`);
      }
    });
  }

  it("would notice a test that is gone", () => {
    assert.ok(!isThere(path, { file: "../test/lab/image.test.ts", title: "no such title" }));
  });
});
