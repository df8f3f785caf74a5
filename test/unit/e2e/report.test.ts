import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { judged, type NamedOutcome, notApplicable, ok } from "../../../src/e2e/outcome.ts";
import { hasFailed, reportText } from "../../../src/e2e/report.ts";
import { answerProblems } from "../../support/answer-schemas.ts";

const outcomes: readonly NamedOutcome[] = [
  { check: "cluster-ip", ...ok("10.96.0.7: 3 backends") },
  { check: "dual-stack", ...notApplicable("one IP family") },
  { check: "events", ...judged(["a", "b", "c", "d", "e"], "never shown") },
];

describe("the report", () => {
  it("is a table with a row for each check, and a summary", () => {
    assert.equal(
      reportText(outcomes, "table"),
      [
        "CHECK       RESULT          DETAIL",
        "cluster-ip  ok              10.96.0.7: 3 backends",
        "dual-stack  not applicable  one IP family",
        "events      failed          a; b; c; and 2 more",
        "",
        "1 ok, 1 failed, 1 not applicable",
        "",
      ].join("\n"),
    );
  });

  it("is JSON with a verdict", () => {
    const text = reportText(outcomes, "json");
    assert.deepEqual(answerProblems("e2e", text), []);
    const report = JSON.parse(text) as Readonly<Record<string, unknown>>;
    assert.equal(report["verdict"], "Failed");
    assert.deepEqual(report["checks"], outcomes);
    assert.equal(hasFailed(outcomes), true);
    assert.equal(hasFailed(outcomes.slice(0, 2)), false);
  });
});
