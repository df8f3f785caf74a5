/** Other tests validate the JSON of every command: see test/support/answer-schemas.ts. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiVersion, type Status, type StatusWithoutDaemon } from "../../../src/answer/answers.ts";
import { commands } from "../../../src/cli/commands.ts";
import { schemaNames } from "../../../toolchain/docs/schemas.ts";
import { answerProblems } from "../../support/answer-schemas.ts";

const stopped: StatusWithoutDaemon = {
  ...{ apiVersion, kind: "Status", verdict: "NotRunning", summary: "Not running" },
};

describe("JSON Schemas of answers", () => {
  it("exist for each command with -o json", () => {
    const names = commands.filter(({ options }) => options.some(({ name }) => name === "output"));
    assert.deepEqual(
      schemaNames.toSorted(),
      [...names.map(({ name }) => name), "all-nodes", "e2e"].toSorted(),
    );
  });

  it("accept an answer, and reject one with a missing, mistyped or undescribed field", () => {
    const problems = (answer: object) => answerProblems("status", JSON.stringify(answer)).join();
    const { summary: _, ...short } = stopped;
    const verdict: Status["verdict"] = "OK";
    assert.equal(problems(stopped), "");
    assert.match(problems(short), /must have required property 'summary'/);
    assert.match(problems({ ...stopped, summary: 1 }), /\/summary must be string/);
    assert.match(problems({ ...stopped, extra: 1 }), /must NOT have additional properties/);
    assert.match(problems({ ...stopped, verdict }), /must have required property 'problems'/);
  });
});
