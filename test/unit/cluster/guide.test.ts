import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { migrationSteps, upgradeSteps } from "../../cluster/guide.ts";

const images = { before: "old", after: "new" };

for (const stepsOf of [migrationSteps, upgradeSteps]) {
  describe(stepsOf.name, () => {
    const steps = stepsOf("node1", images);

    it("takes its commands from the guide, and runs them for one node first", () => {
      assert.ok(steps.some(({ command }) => command.includes("node1")));
      assert.ok(steps.every(({ command }) => !command.includes("NODE")));
    });

    it("ends in the initial state, after both nodes were taken over", () => {
      assert.deepEqual(steps[0]?.serving, ["old", "old"]);
      assert.deepEqual(steps.at(-1)?.serving, ["old", "old"]);
      assert.ok(steps.some(({ serving }) => serving?.join() === "new,new"));
    });
  });
}
