/** Tests that each claim in a docs/security.md table with a column "test" names an existing test. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isThere, rowsOf, testsOf } from "../../support/documents/named-tests.ts";

const path = join(import.meta.dirname, "../../../docs/security.md");
const text = readFileSync(path, "utf8");

/** For each attacker: their attempts, kube-ipvs's reaction, the limits, and the test. */
const threats = text.slice(text.indexOf("## Threats"), text.indexOf("## What limits"));
const limits = text.slice(text.indexOf("## What limits"));
const claims = [threats, limits].flatMap((part) => rowsOf(part.split("\n")));

describe("the security model", () => {
  it("has claims", () => assert.ok(claims.length > 25, `${claims.length} rows`));

  it("has a table with four columns for each attacker", () => {
    const titles = [...threats.matchAll(/^### (.*)$/gm)].map(([, title = ""]) => title);
    const attackers = [/tenant/, /neighbor pod/, /user on the node/, /network between/];
    assert.equal(titles.length, attackers.length);
    for (const [index, attacker] of attackers.entries())
      assert.match(titles[index] ?? "", attacker);
    for (const cells of rowsOf(threats.split("\n"))) assert.equal(cells.length, 4, cells[0]);
  });

  for (const cells of claims) {
    it(`names a test: ${cells[0]}`, () => {
      const last = cells.at(-1) ?? "";
      const tests = testsOf(last);
      assert.ok(
        tests.length > 0 || /^none: /.test(last),
        "neither a test nor a reason why there is none",
      );
      for (const test of tests) {
        assert.ok(isThere(path, test), `${test.file} has no test "${test.title}"`);
      }
    });
  }

  it("is rejected by this test if a test that it names does not exist", () => {
    assert.ok(!isThere(path, { file: "../test/lab/image.test.ts", title: "no such title" }));
  });
});
