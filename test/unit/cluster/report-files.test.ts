import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { writtenFiles } from "../../cluster/report-files.ts";
import { explainedRights } from "../../cluster/unused-rights.ts";

const reports = join(import.meta.dirname, "../../../docs/reports");

describe("The recorded cluster runs", () => {
  for (const [path, text] of Object.entries(writtenFiles()))
    it(`result in ${path}`, () => {
      assert.equal(readFileSync(join(reports, path), "utf8"), text);
    });

  const rows = (writtenFiles()["data/conformance-requests.tsv"] ?? "")
    .split("\n")
    .slice(1, -1)
    .map((line) => line.split("\t"));

  it("used all permissions, or there is a reason to grant them", () => {
    assert.ok(rows.length > 0);
    const isUnused = ([, , , , count, , granted]: readonly string[]): boolean =>
      count === "0" && granted === "yes";
    assert.deepEqual(
      rows.filter((row) => isUnused(row) && row[7] === ""),
      [],
    );
  });

  it("had no forbidden request, and made none without a permission", () => {
    assert.deepEqual(
      rows.filter(([, , , , , forbidden, granted]) => forbidden !== "0" || granted === "no"),
      [],
    );
  });

  it("were granted every permission for which a reason is given", () => {
    const granted = rows.map(([, , resource, verb]) => `${resource} ${verb}`);
    assert.deepEqual(
      explainedRights.filter((right) => !granted.includes(right)),
      [],
    );
  });
});
