import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { migrationSteps } from "../../cluster/guide.ts";

describe("migrationSteps", () => {
  it("has the commands of the guides in their order, for one node first", () => {
    const steps = migrationSteps("node1").map(({ command }) => command);
    assert.equal(steps[2], "deploy/roll-out start node1");
    assert.equal(steps.at(-1), "kubectl replace -f kube-proxy.yaml");
    assert.ok(steps.every((command) => !command.includes("NODE")));
  });

  it("ends where it began", () => {
    const steps = migrationSteps("node1");
    assert.deepEqual(steps.at(-1)?.serving, steps[0]?.serving);
  });
});
